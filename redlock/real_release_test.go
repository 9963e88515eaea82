package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// One process takes the lock, another one releases it, a third one waits for it.
func TestRealReleaseByAnotherProcess(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	first, worker, other := newRealRedlock(t, nodesOf(c)), newRealRedlock(t, nodesOf(c)), newRealRedlock(t, nodesOf(c))
	for _, opts := range [][]Option{nil, {WithFencing()}, {WithOwner(oddOwner)}} {
		l, err := first.TryLock(t.Context(), []string{"a", "b"}, time.Minute, opts...)
		require.NoError(t, err)
		got := make(chan *Lock)
		go func() {
			next, err := other.Lock(context.Background(), []string{"b"}, time.Minute, WithRetryCount(-1), WithRetryDelay(2*time.Second))
			assert.NoError(t, err)
			got <- next
		}()
		await(t, 5*time.Second, "somebody waits", func() bool { return other.Stats().Waiting == 1 })
		release := worker.Release(t.Context(), l.Resources(), l.Token())
		for errors.Is(release, ErrNoQuorum) { // The machine may be that slow.
			release = worker.Release(t.Context(), l.Resources(), l.Token())
		}
		require.NoError(t, release)
		next := <-got
		require.ErrorIs(t, worker.Release(t.Context(), l.Resources(), l.Token()), ErrLost)
		require.NoError(t, next.Extend(t.Context(), time.Minute), "another's lock is not touched")
		require.NoError(t, next.Unlock(t.Context()))
		awaitNoKeys(t, c, 8*time.Second)
	}
}

// The lock is released in the end, whatever happens to the connections of both processes
// meanwhile, and nobody else gets it before.
func TestRealReleaseByAnotherProcessThroughFaults(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	first, worker, other := newRealRedlock(t, nodesOf(c)), newRealRedlock(t, nodesOf(c)), newRealRedlock(t, nodesOf(c))
	for _, n := range c.Nodes {
		n.Proxy().SetDelay(0, 2*time.Millisecond)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), scenario(4*time.Second, time.Second))
	defer cancel()
	wg.Go(func() { // One node's connections at a time: a quorum is there.
		for rest(ctx, 0, 20*time.Millisecond) {
			c.Nodes[rand.IntN(len(c.Nodes))].Proxy().Reset()
		}
	})
	handed, lost := 0, 0
	for ctx.Err() == nil {
		l, err := first.TryLock(t.Context(), []string{"a"}, time.Minute)
		if err != nil {
			continue
		}
		if _, refused := other.TryLock(t.Context(), []string{"a"}, time.Minute); refused == nil {
			t.Fatal("two holders")
		}
		for begun := time.Now(); ; {
			err = worker.Release(t.Context(), l.Resources(), l.Token())
			if !errors.Is(err, ErrNoQuorum) {
				break
			}
			require.Less(t, time.Since(begun), time.Minute, "no quorum confirms the release: %v", err)
		}
		handed++
		if err != nil {
			require.ErrorIs(t, err, ErrLost)
			lost++
		}
	}
	wg.Wait()
	assert.Positive(t, handed)
	assert.Zero(t, lost, "of %d", handed)
	awaitNoKeys(t, c, 10*time.Second)
}
