package redlocktusd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/child"
	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// TestMain is also the other processes, which serve until the test closes their input.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // Tusd logs each request.
	if job := os.Getenv("REDLOCK_TUSD"); job != "" {
		if err := runServer(strings.Split(job, "\n")); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func runServer(job []string) (err error) {
	life, err := time.ParseDuration(job[1])
	if err != nil {
		return err
	}
	r, err := nodetest.Connect(job[2:])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close(context.Background())) }()
	if job[0] == "wait" {
		_, err = r.Lock(context.Background(), []string{"tusd:" + id}, life, redlock.WithRetryCount(-1))
		return err
	}
	h, err := newHandler(job[0], New(r, life))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(listener) }()
	fmt.Println("http://" + listener.Addr().String())
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, s.Shutdown(context.Background()))
}

// start runs a server in a process of its own.
func start(t *testing.T, folder string, cluster *testcluster.Cluster, ttl time.Duration) (p *child.Process, addr string) {
	t.Helper()
	p = child.Start(t, "REDLOCK_TUSD", append([]string{folder, ttl.String()}, cluster.Addrs()...)...)
	return p, p.Line()
}

func TestTwoProcessesResumeAnUpload(t *testing.T) {
	t.Parallel()
	cluster, folder := testcluster.RunEmbedded(t, 3), t.TempDir()
	const ttl = 6 * time.Second
	first, one := start(t, folder, cluster, ttl)
	second, two := start(t, folder, cluster, ttl)
	newClient(t, folder, balance(t, one, two)).resume()
	first.End()
	second.End()
}

// A process that is killed holds the upload until the ttl is over.
func TestAProcessFollowsAnotherThatIsKilled(t *testing.T) {
	t.Parallel()
	cluster, folder := testcluster.RunEmbedded(t, 3), t.TempDir()
	const ttl = 3 * time.Second
	first, one := start(t, folder, cluster, ttl)
	second, two := start(t, folder, cluster, ttl)
	c := newClient(t, folder, balance(t, one, two))
	middle, answer, hangUp := c.breakOff(0)
	first.Kill()
	hangUp()
	require.Equal(t, http.StatusBadGateway, (<-answer).StatusCode)
	require.Equal(t, middle, c.offset())
	c.complete(middle)
	second.End()
}

// A server that is killed while it waits has had the request before be asked to stop, but has none after it: the
// release takes it out of the line.
func TestAServerThatIsKilledWhileItWaitsInterruptsOnce(t *testing.T) {
	t.Parallel()
	cluster := testcluster.RunServers(t, 3)
	const ttl = 9 * time.Second
	r := nodetest.Redlock(t, cluster.Addrs())
	l := New(r, ttl)
	first, second := newLock(t, l), newLock(t, l)
	asked := make(chan struct{}, 2)
	ask := func() { asked <- struct{}{} }
	require.NoError(t, first.Lock(t.Context(), ask))
	waits := child.Start(t, "REDLOCK_TUSD", append([]string{"wait", ttl.String()}, cluster.Addrs()...)...)
	<-asked // So it is in line.
	waits.Kill()
	for range 2 { // Then servers have also carried out what it has sent last.
		_, err := r.Inspect(t.Context(), "none")
		require.NoError(t, err)
	}
	require.NoError(t, first.Unlock())

	require.NoError(t, second.Lock(t.Context(), ask))
	select {
	case <-asked:
		t.Error("the second request was asked to stop")
	case <-time.After(5 * time.Second): // Two extensions.
	}
	require.NoError(t, second.Unlock())
}
