package servers

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// One process takes the lock, another one releases it, a third one waits for it.
func TestReleaseByAnotherProcess(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	first, worker, other := newPatient(t, nodesOf(c)), newPatient(t, nodesOf(c)), newPatient(t, nodesOf(c))
	for _, opts := range [][]redlock.Option{nil, {redlock.WithFencing()}, {redlock.WithOwner(oddOwner)}} {
		l, err := first.TryLock(t.Context(), []string{"a", "b"}, time.Minute, opts...)
		require.NoError(t, err)
		got := make(chan *redlock.Lock)
		go func() {
			next, err := other.Lock(context.Background(), []string{"b"}, time.Minute, redlock.WithRetryCount(-1), redlock.WithRetryDelay(2*time.Second))
			assert.NoError(t, err)
			got <- next
		}()
		await(t, 30*time.Second, "somebody waits", func() bool { return other.Stats().Waiting == 1 })
		await(t, 30*time.Second, "a quorum confirms the release", func() bool { // The machine may be slow.
			release := worker.Release(t.Context(), l.Resources(), l.Token())
			require.True(t, release == nil || errors.Is(release, redlock.ErrNoQuorum), "%v", release)
			return release == nil
		})
		next := <-got
		require.ErrorIs(t, worker.Release(t.Context(), l.Resources(), l.Token()), redlock.ErrLost)
		require.NoError(t, next.Extend(t.Context(), time.Minute), "another's lock is not touched")
		require.NoError(t, next.Unlock(t.Context()))
		awaitNoKeys(t, c, 30*time.Second)
	}
}

// The lock is released in the end, whatever happens to the connections of both processes
// meanwhile, and nobody else gets it before. No key is left, also of a lock request of the
// first process that reaches a node after the release.
func TestReleaseByAnotherProcessThroughFaults(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	first, worker, other := newPatient(t, nodesOf(c)), newPatient(t, nodesOf(c)), newPatient(t, nodesOf(c))
	for _, n := range c.Nodes {
		n.Proxy().SetDelay(0, 2*time.Millisecond)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	var handed atomic.Int64
	ctx := eventful(t, scenario(4*time.Second, time.Second), func() bool { return handed.Load() > 0 })
	wg.Go(func() { // One node's connections at a time, and when all were there: a quorum is.
		for rest(ctx, 0, 20*time.Millisecond) {
			if testkit.AllUp(first) && testkit.AllUp(worker) && testkit.AllUp(other) {
				c.Nodes[rand.IntN(len(c.Nodes))].Proxy().Reset()
			}
		}
	})
	lost := 0
	for ctx.Err() == nil {
		l, err := first.TryLock(t.Context(), []string{"a"}, time.Minute)
		if err != nil {
			continue
		}
		if _, refused := other.TryLock(t.Context(), []string{"a"}, time.Minute); refused == nil {
			t.Fatal("two holders")
		}
		first := true
		for begun := time.Now(); ; first = false {
			err = worker.Release(t.Context(), l.Resources(), l.Token())
			if !errors.Is(err, redlock.ErrNoQuorum) {
				break
			}
			require.Less(t, time.Since(begun), time.Minute, "no quorum confirms the release: %v", err)
		}
		handed.Add(1)
		if err != nil {
			require.ErrorIs(t, err, redlock.ErrLost)
			if first { // Repeated, it may say so of a lock that an earlier call has released.
				lost++
			}
		}
	}
	wg.Wait()
	assert.Positive(t, handed.Load())
	assert.Zero(t, lost, "of %d", handed.Load())
	awaitNoKeys(t, c, 30*time.Second)
}

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
