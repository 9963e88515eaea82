package redlocktusd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
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
	ttl, err := time.ParseDuration(job[1])
	if err != nil {
		return err
	}
	r, err := connect(job[2:])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close(context.Background())) }()
	h, err := newHandler(job[0], New(r, ttl))
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
func start(t *testing.T, folder string, cluster *testcluster.Cluster, ttl time.Duration) (addr string, end, kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0]) // It is killed if the test ends before.
	cmd.Env = append(os.Environ(), "REDLOCK_TUSD="+
		strings.Join(append([]string{folder, ttl.String()}, cluster.Addrs()...), "\n"))
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said := bufio.NewReader(output)
	line, err := said.ReadString('\n')
	require.NoError(t, err)
	end = func() {
		require.NoError(t, input.Close())
		rest, err := io.ReadAll(said)
		require.NoError(t, err)
		require.Empty(t, string(rest))
		require.NoError(t, cmd.Wait())
	}
	kill = func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
	}
	return strings.TrimSpace(line), end, kill
}

func TestTwoProcessesResumeAnUpload(t *testing.T) {
	t.Parallel()
	cluster, folder := testcluster.RunEmbedded(t, 3), t.TempDir()
	const ttl = 6 * time.Second
	one, endOne, _ := start(t, folder, cluster, ttl)
	two, endTwo, _ := start(t, folder, cluster, ttl)
	newClient(t, folder, balance(t, one, two)).resume()
	endOne()
	endTwo()
}

// A process that is killed holds the upload until the ttl is over.
func TestAProcessFollowsAnotherThatIsKilled(t *testing.T) {
	t.Parallel()
	cluster, folder := testcluster.RunEmbedded(t, 3), t.TempDir()
	const ttl = 3 * time.Second
	one, _, killOne := start(t, folder, cluster, ttl)
	two, endTwo, _ := start(t, folder, cluster, ttl)
	c := newClient(t, folder, balance(t, one, two))
	middle, answer, hangUp := c.breakOff(0)
	killOne()
	hangUp()
	require.Equal(t, http.StatusBadGateway, (<-answer).StatusCode)
	require.Equal(t, middle, c.offset())
	c.complete(middle)
	endTwo()
}
