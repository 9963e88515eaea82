//go:build unix

package redlocktusd

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// TestMain is also another process, which waits for the upload on the servers that it is told.
func TestMain(m *testing.M) {
	addrs := strings.Fields(os.Getenv("REDLOCK_TUSD"))
	if len(addrs) == 0 {
		os.Exit(m.Run())
	}
	r, err := nodetest.Connect(addrs)
	if err == nil {
		_, err = r.Lock(context.Background(), []string{"tusd:" + id}, ttl, redlock.WithRetryCount(-1))
	}
	panic(err) // It is killed before.
}

// A server that is killed while it waits has had the request before be asked to stop, but has none after it: the
// release takes it out of the line.
func TestAServerThatIsKilledWhileItWaitsInterruptsOnce(t *testing.T) {
	t.Parallel()
	cluster := testcluster.RunServers(t, 3)
	r := nodetest.Redlock(t, cluster.Addrs())
	l := New(r, ttl)
	first, second := newLock(t, l), newLock(t, l)
	asked := make(chan struct{}, 2)
	ask := func() { asked <- struct{}{} }
	require.NoError(t, first.Lock(t.Context(), ask))
	waits := nodetest.Start(t, "REDLOCK_TUSD", cluster.Addrs()...)
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
	case <-time.After(ttl / 2): // Two extensions.
	}
	require.NoError(t, second.Unlock())
}
