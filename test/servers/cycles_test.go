package servers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// One node lags behind all the time: its votes never count and its requests
// pile up, in the order in which they were made. A release that overtook its lock
// there would leave a key for a minute.
func TestUnlockInCyclesWithASlowNodeLeavesNothing(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	r := newRedlock(t, c, redlock.WithNodeTimeout(patient))
	require.NoError(t, c.Nodes[1].Slow(0, 20*time.Millisecond))
	start := time.Now()
	for i := range 300 {
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err, "cycle %d", i)
		require.NoError(t, l.Unlock(t.Context()), "cycle %d", i)
	}
	took := time.Since(start)
	clean := awaitNoKeys(t, c, 10*time.Second)
	t.Logf("300 cycles in %v, no key left %v later", took, clean)
	for _, n := range r.Stats().Nodes {
		require.Zero(t, n.Unknown, "no connection broke")
	}
}
