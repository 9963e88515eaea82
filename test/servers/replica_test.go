package servers

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A node that has become a replica keeps its connections. It is seen to be down, for that
// reason, and is not up and down in turn while it is one; later it comes back by itself.
func TestReplicaThatWasAMasterIsDown(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	var ups atomic.Int32
	r := newPatient(t, nodesOf(c), redlock.WithNodeTimeout(patient), redlock.WithHook(func(_ context.Context, e redlock.Event) {
		if e.Kind == redlock.EventNodeUp && e.Node == c.Nodes[0].Name() {
			ups.Add(1)
		}
	}))
	awaitAll(t, c, r, 20*time.Second)
	before := ups.Load()
	host, port, err := net.SplitHostPort(c.Nodes[1].DirectAddr())
	require.NoError(t, err)
	admin(t, c.Nodes[0], "REPLICAOF", host, port)
	lockAndUnlock := func() {
		l, err := r.TryLock(t.Context(), []string{"x"}, time.Minute)
		require.NoError(t, err)
		release(t, l)
	}
	await(t, 30*time.Second, "the replica is given up", func() bool {
		lockAndUnlock()
		return !r.Stats().Nodes[0].Up
	})
	connected := r.Stats().Nodes[0].Connects
	await(t, 30*time.Second, "it is tried again and again", func() bool {
		lockAndUnlock()
		return r.Stats().Nodes[0].Connects > connected+3
	})
	s := r.Stats().Nodes[0]
	assert.False(t, s.Up)
	require.ErrorContains(t, s.Err, "READONLY")
	assert.Equal(t, before, ups.Load(), "it does not count as up in between")
	admin(t, c.Nodes[0], "REPLICAOF", "NO", "ONE")
	awaitAll(t, c, r, 20*time.Second)
	assert.Equal(t, before+1, ups.Load())
}
