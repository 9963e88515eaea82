package redlockcertmagic

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/child"
	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// TestMain is also the other processes, which say what happens to them.
func TestMain(m *testing.M) {
	if job := os.Getenv("REDLOCK_CERTMAGIC"); job != "" {
		manage(strings.Split(job, "\n"))
		return
	}
	os.Exit(m.Run())
}

// manage obtains a certificate, from a CA that waits for a line from the test.
func manage(job []string) {
	ctx := context.Background()
	r := must(nodetest.Connect(job[2:], redlock.WithHook(func(_ context.Context, e redlock.Event) {
		if e.Kind == redlock.EventWaiting {
			fmt.Println("waits")
		}
	})))
	storage := New(&certmagic.FileStorage{Path: job[0]}, r, must(time.ParseDuration(job[1])))
	config, stop := newInstance(storage, newCA(func(context.Context) error {
		fmt.Println("asks the CA")
		_, err := bufio.NewReader(os.Stdin).ReadString('\n')
		return err
	}))
	if err := config.ManageSync(ctx, []string{domain}); err != nil {
		panic(err)
	}
	fmt.Println("has", serial(config))
	stop()
	if err := r.Close(ctx); err != nil {
		panic(err)
	}
}

func start(t *testing.T, folder string, ttl time.Duration, cluster *testcluster.Cluster) *child.Process {
	t.Helper()
	return child.Start(t, "REDLOCK_CERTMAGIC", append([]string{folder, ttl.String()}, cluster.Addrs()...)...)
}

func TestTwoProcessesObtainACertificateOnce(t *testing.T) {
	t.Parallel()
	cluster, folder := testcluster.RunEmbedded(t, 3), t.TempDir()
	one := start(t, folder, time.Minute, cluster)
	one.Says("asks the CA", "waits")
	two := start(t, folder, time.Minute, cluster)
	two.Says("waits", "")
	one.GoOn()
	require.Equal(t, one.Says("has", "waits"), two.Says("has", "waits"))
	one.End()
	two.End()
}

func TestAProcessFollowsAnotherThatIsKilled(t *testing.T) {
	t.Parallel()
	cluster, folder := testcluster.RunEmbedded(t, 3), t.TempDir()
	one := start(t, folder, 2*time.Second, cluster)
	one.Says("asks the CA", "waits")
	two := start(t, folder, 2*time.Second, cluster)
	one.Kill()
	two.Says("asks the CA", "waits")
	two.GoOn()
	two.Says("has", "waits")
	two.End()
}
