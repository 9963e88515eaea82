package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// mixedLoad has callers of which most wait for one of a few locks, and some hold theirs for longer than its ttl, until
// ctx ends.
func mixedLoad(ctx context.Context, t *testing.T, r *redlock.Redlock, callers int) (wait func()) {
	t.Helper()
	seed := testkit.Seed(t)
	var wg sync.WaitGroup
	for i := range callers {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = r.Do(ctx, []string{[]string{fmt.Sprint("invoice:", rng.IntN(3)), "report"}[rng.IntN(2)]}, 10*time.Second, func(ctx context.Context, _ *redlock.Lock) error {
					select {
					case <-time.After(testkit.Between(rng, 0, 8*time.Second)):
					case <-ctx.Done():
					}
					return context.Cause(ctx)
				}, redlock.WithRetryCount(-1))
			}
		})
	}
	return wg.Wait
}

// A real server that has refused a write, and carries out what needs none, is told soon, once, with any load, and is
// back soon after it has writes again.
func TestUnresponsiveServerThatRefusesWrites(t *testing.T) {
	for name, set := range map[string][3]string{ // As CONFIG SET takes it, and back.
		"OOM":        {"maxmemory", "1", "0"},
		"NOREPLICAS": {"min-replicas-to-write", "1", "0"},
	} {
		for _, load := range []string{"mixed", "one call"} {
			t.Run(name+", "+load, func(t *testing.T) {
				t.Parallel()
				c := testcluster.RunServers(t, 3)
				var rec recorder
				r := newPatient(t, nodesOf(c), redlock.WithHook(rec.Hook))
				cycle(t, r, "warm", ttl)
				ctx, cancel := context.WithCancel(t.Context())
				wait := func() {}
				defer func() { cancel(); wait() }()
				if load == "mixed" {
					kept, err := r.TryLock(ctx, []string{"kept"}, time.Second)
					require.NoError(t, err)
					kept.KeepAlive(ctx) // Its extensions go well under OOM, and so do locks after a wait.
					wait = mixedLoad(ctx, t, r, 4)
				}
				rec.TakeAll()
				do(t, c.Nodes[1], "CONFIG", "SET", set[0], set[1])
				cycle(t, r, "x", ttl) // It is refused there: of the load, all may go well, for as long as it lasts.
				require.Eventually(t, func() bool { return len(unresponsive(r)) == 1 }, time.Minute, 50*time.Millisecond)
				require.ErrorContains(t, r.Stats().Nodes[1].Unresponsive, name)
				assert.Never(t, func() bool { return len(unresponsive(r)) == 0 }, time.Duration(rounds(20, 5))*time.Second, 50*time.Millisecond)
				do(t, c.Nodes[1], "CONFIG", "SET", set[0], set[2])
				require.Eventually(t, func() bool { return len(unresponsive(r)) == 0 }, time.Minute, 50*time.Millisecond)
				cancel()
				assert.Len(t, rec.TakeOf(redlock.EventNodeUnresponsive), 1)
			})
		}
	}
}

// Its connection is never idle, so that a write must be tried between other requests.
func TestUnresponsiveServerThatRefusesWritesUnderLoad(t *testing.T) {
	withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		require.NoError(t, c.Slow(20*time.Millisecond, 40*time.Millisecond))
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for i := range 6 {
			callers.Go(func() {
				for ctx.Err() == nil {
					if l, err := r.TryLock(ctx, []string{fmt.Sprint("r", i)}, ttl); err == nil {
						_ = l.Unlock(ctx)
					}
				}
			})
		}
		require.NoError(t, c.Nodes[1].SetError("OOM command not allowed when used memory > 'maxmemory'."))
		time.Sleep(20 * time.Second)
		require.Len(t, unresponsive(r), 1)
		require.NoError(t, c.Nodes[1].SetError(""))
		time.Sleep(20 * time.Second)
		assert.Empty(t, unresponsive(r))
		cancel()
		callers.Wait()
	})
}

// The release of a lock that the node has not granted finds nothing: nobody else has it.
func TestVotesOfANodeThatRefusesWrites(t *testing.T) {
	withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		before := r.Stats().Nodes[1].Votes
		require.NoError(t, c.Nodes[1].SetError("OOM command not allowed when used memory > 'maxmemory'."))
		l := tryLock(t, r, []string{"a"}, ttl)
		synctest.Wait()
		require.NoError(t, c.Nodes[1].SetError(""))
		require.NoError(t, l.Unlock(t.Context()))
		synctest.Wait()
		votes := r.Stats().Nodes[1].Votes
		assert.Equal(t, before.Failed+1, votes.Failed)
		assert.Equal(t, before.Lost+1, votes.Lost)
		assert.Equal(t, before.Taken, votes.Taken)
	})
}
