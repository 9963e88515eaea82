package servers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// All connections are made anew each second, under load: no lock fails, no key is left, and fences grow.
func TestConnectionAgeOnServers(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	var nodes []redlock.Node
	for i, n := range serverNodes(c) {
		if i == 0 {
			n.Pool = c.Nodes[0].Pool()
		}
		nodes = append(nodes, n)
	}
	r := newPatient(t, nodes, redlock.WithConnectionAge(time.Second), redlock.WithFencing())
	end := time.Now().Add(scenario(10*time.Second, 3*time.Second))
	var callers sync.WaitGroup
	var locks atomic.Int64
	for i := range 16 {
		callers.Go(func() {
			for fence := int64(0); time.Now().Before(end) && !t.Failed(); locks.Add(1) {
				l, err := r.TryLock(t.Context(), []string{fmt.Sprint("r", i)}, time.Minute)
				if assert.NoError(t, err) {
					assert.Greater(t, l.Fence(), fence)
					fence = l.Fence()
					assert.NoError(t, l.Unlock(t.Context()))
				}
			}
		})
		callers.Go(func() {
			for time.Now().Before(end) && !t.Failed() {
				l, err := r.Lock(t.Context(), []string{"common"}, time.Minute, redlock.WithRetryCount(-1))
				if assert.NoError(t, err) {
					assert.NoError(t, l.Unlock(t.Context()))
				}
			}
		})
	}
	callers.Wait()
	for _, n := range r.Stats().Nodes {
		assert.Greater(t, n.Connects, int64(rounds(6, 2)))
		assert.Zero(t, n.Unknown)
		assert.True(t, n.Up)
	}
	awaitNoKeys(t, c)
	require.NoError(t, r.Close(context.Background()))
	for _, n := range c.Nodes {
		await(t, time.Minute, "no connection is left", func() bool { return clients(t, n) == 0 })
	}
	t.Log(locks.Load(), "locks")
}

// The server has no place for a second connection.
func TestConnectionAgeAndMaxClients(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 1)
	r := newRedlock(t, c, redlock.WithConnectionAge(100*time.Millisecond), redlock.WithNodeTimeout(patient))
	cycle(t, r, "a", ttl)
	admin(t, c.Nodes[0], "CONFIG", "SET", "maxclients", 1)
	before := connects(r)
	await(t, time.Minute, "an attempt", func() bool { return connects(r) > before })
	cycle(t, r, "a", ttl)
	assert.True(t, r.Stats().Nodes[0].Up)
}
