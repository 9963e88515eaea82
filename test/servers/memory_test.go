package servers

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A server that is out of memory gives no new locks. But the connection to it
// can be made again, clean-up included, and held locks be extended and released.
func TestMemoryThatIsFullStillLetsLocksBeKeptAndReleased(t *testing.T) {
	c := testcluster.RunServers(t, 1, testcluster.WithProxy())
	n := c.Nodes[0]
	r := newPatient(t, nodesOf(c))
	held, err := r.TryLock(t.Context(), []string{"held"}, time.Minute)
	require.NoError(t, err)
	n.Proxy().DropReplies(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	go func() {
		_, lockErr := r.TryLock(ctx, []string{"unknown"}, time.Minute)
		ended <- lockErr
	}()
	await(t, 30*time.Second, "the server has carried it out", func() bool { return keys(t, n)["unknown"].Value != "" })
	cancel()
	require.Error(t, <-ended)
	admin(t, n, "CONFIG", "SET", "maxmemory", "1")
	n.Proxy().DropReplies(false)
	n.Proxy().Reset()
	await(t, 30*time.Second, "it is cleaned up", func() bool { return r.Stats().Nodes[0].Cleaned == 1 })
	_, err = r.TryLock(t.Context(), []string{"new"}, time.Minute)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, err, "OOM")
	require.NoError(t, held.Extend(t.Context(), time.Minute))
	require.NoError(t, held.Unlock(t.Context()))
	requireNoKeys(t, c)
}
