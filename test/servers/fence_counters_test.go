package servers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/testkit"
	"github.com/seed6c881748/redlock/redlock"
)

// A user that may read the counters but not write them gets no lock, and no key is left.
func TestFenceCountersThatMayNotBeWritten(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	nodes := make([]redlock.Node, len(c.Nodes))
	for i, n := range c.Nodes {
		_, err := adminConn(t, n).Do("ACL", "SETUSER", "reader", "on", ">pw", "resetkeys", "+@all", "~x", "~*:s:*", "%R~*:f:*")
		require.NoError(t, err)
		nodes[i] = redlock.NewNode("redis://reader:pw@" + n.Addr())
	}
	r := newPatient(t, nodes)
	for _, opts := range [][]redlock.Option{{redlock.WithRetryCount(0)}, {redlock.WithRetryCount(1), redlock.WithRetryDelay(time.Millisecond)}} {
		_, err := r.Lock(t.Context(), []string{"x"}, time.Hour, append(opts, redlock.WithFencing())...)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "NOPERM")
		for _, n := range c.Nodes {
			assert.Empty(t, keys(t, n))
		}
	}
}

// A server that is out of memory keeps a lock and its counters.
func TestFencesAreKeptByServersOutOfMemory(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	r := newPatient(t, nodesOf(c), redlock.WithFencing())
	l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
	require.NoError(t, err)
	await(t, 30*time.Second, "all nodes have it", func() bool {
		for _, n := range c.Nodes {
			if len(keys(t, n)) == 0 {
				return false
			}
		}
		return true
	})
	for _, ttl := range []time.Duration{2 * time.Minute, 30 * time.Second} { // Longer than what is left, and shorter.
		for _, n := range c.Nodes {
			require.NoError(t, n.Del(testkit.CounterKey("a")))
			_, err := adminConn(t, n).Do("CONFIG", "SET", "maxmemory", "1")
			require.NoError(t, err)
		}
		require.NoError(t, l.Extend(t.Context(), ttl))
	}
	require.NoError(t, l.Unlock(t.Context()))
}
