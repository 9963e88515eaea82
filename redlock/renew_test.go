package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// keeping returns a pool that has kept so many connections.
func keeping(t *testing.T, from redlock.Pool, idle int) redlock.Pool {
	t.Helper()
	p := &redis.Pool{MaxIdle: 10, MaxActive: 10, DialContext: from.GetContext}
	t.Cleanup(func() { _ = p.Close() })
	conns := make([]redis.Conn, idle)
	for i := range conns {
		conns[i] = p.Get()
		require.NoError(t, conns[i].Err())
	}
	for _, c := range conns {
		require.NoError(t, c.Close())
	}
	return p
}

// Whatever is wrong with the second connection, the first goes on, and it is tried with a backoff.
func TestConnectionAgeKeepsTheOldOne(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var spoilt atomic.Bool
		r, rec := overSpentPools(t, c, &spoilt, redlock.WithConnectionAge(10*time.Second))
		l := lockOnAll(t, r, []string{"held"}, time.Hour)
		spoilt.Store(true)
		for start := time.Now(); time.Since(start) < 10*time.Minute; time.Sleep(3 * time.Second) {
			cycle(t, r, "a", ttl)
		}
		for _, n := range r.Stats().Nodes {
			assert.True(t, n.Up)
			assert.Less(t, n.Connects, int64(50), "with a backoff")
			assert.Greater(t, n.Connects, int64(15), "and never given up")
		}
		assert.Len(t, rec.TakeOf(redlock.EventNodeUp), 3)
		assert.Empty(t, rec.TakeOf(redlock.EventNodeDown))
		before := connects(r)
		spoilt.Store(false)
		time.Sleep(time.Minute)
		assert.GreaterOrEqual(t, connects(r), before+3)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// A pool that has one connection, or all of whose calls hang, is left in peace.
func TestConnectionAgeWithoutAPlace(t *testing.T) {
	for _, wait := range []bool{false, true} {
		runInBubble(t, fmt.Sprint(wait), 3, func(t *testing.T, c *testcluster.Cluster) {
			nodes := withOneConnection(c, wait)
			r := newOver(t, nodes, redlock.WithConnectionAge(time.Second))
			warm(t, r)
			for range 600 {
				cycle(t, r, "a", ttl)
				time.Sleep(100 * time.Millisecond)
				assert.Zero(t, nodes[0].Pool.(*redis.Pool).Stats().WaitCount)
			}
			assert.EqualValues(t, 3, connects(r))
		})
	}
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		var calls atomic.Int64
		hang := make(chan struct{})
		pool := redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
			if calls.Add(1) > 1 {
				<-hang
			}
			return c.Nodes[0].Conn(ctx)
		})
		r := newOver(t, []redlock.Node{{Name: "a", Pool: pool}}, redlock.WithConnectionAge(time.Second))
		warm(t, r)
		time.Sleep(time.Hour)
		assert.EqualValues(t, 2, calls.Load(), "one call hangs, and no other one is made")
		cycle(t, r, "a", ttl)
		close(hang)
		time.Sleep(time.Minute)
		assert.Greater(t, calls.Load(), int64(10))
	})
}

// The place of a pool's connection that was made past it is given back with it.
func TestConnectionAgeKeepsToMaxActive(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		p := c.Nodes[0].Pool()
		p.MaxActive = 2
		r := newOver(t, []redlock.Node{{Name: "a", Pool: p}}, redlock.WithConnectionAge(time.Second))
		for range 200 {
			cycle(t, r, "a", ttl)
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			assert.LessOrEqual(t, p.ActiveCount(), 2)
			assert.LessOrEqual(t, c.Nodes[0].Proxy().Conns(), 2)
		}
		assert.Greater(t, connects(r), int64(15))
		require.NoError(t, r.Close(t.Context()))
		assert.Zero(t, p.ActiveCount())
	})
}

// Nothing overtakes what the old server still has to answer: a lock request that is on its way there, and its release.
func TestConnectionAgeKeepsTheOrder(t *testing.T) {
	const slow = 150 * time.Millisecond
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newWarm(t, c, redlock.WithConnectionAge(0))
		n := c.Nodes[0]
		n.Proxy().SetDelays(slow, slow, 0, 0) // For the chunks that come from now on.
		go func() { _, _ = r.TryLock(t.Context(), []string{"a"}, time.Hour, redlock.WithNodeTimeout(slow/2)) }()
		synctest.Wait()
		n.Proxy().SetDelays(0, 0, 0, 0)
		redlock.NodesIn(r)[0].LookAgain()
		time.Sleep(slow - time.Millisecond)
		start := time.Now()
		l := tryLock(t, r, []string{"b"}, ttl)
		assert.GreaterOrEqual(t, time.Since(start), time.Millisecond, "it has waited")
		require.NoError(t, l.Unlock(t.Context()))
		synctest.Wait()
		requireNoKeys(t, c)
		assert.EqualValues(t, 2, connects(r))
		assert.Zero(t, r.Stats().Nodes[0].Unknown)
		time.Sleep(time.Second)
	})
}

// The old server does not answer. It goes on, and is broken as if no other connection had been made.
func TestConnectionAgeWithAnOldServerThatIsSilent(t *testing.T) {
	for silence, wantUnknown := range map[time.Duration]int64{600 * time.Millisecond: 0, time.Minute: 1} {
		runInBubble(t, silence.String(), 2, func(t *testing.T, c *testcluster.Cluster) {
			var moved atomic.Bool
			var rec recorder
			r := newOver(t, []redlock.Node{{Name: "a", Pool: movable(&moved, c)}},
				redlock.WithConnectionAge(0), redlock.WithHook(rec.Hook))
			warm(t, r)
			held := tryLock(t, r, []string{"held"}, time.Hour)
			moved.Store(true)
			c.Nodes[0].Proxy().Hang()
			refusedLate := meanwhile(func() error {
				return lockError(r.TryLock(t.Context(), []string{"a"}, time.Hour))
			})
			synctest.Wait()
			redlock.NodesIn(r)[0].LookAgain()
			require.ErrorIs(t, <-refusedLate, redlock.ErrNoQuorum)
			time.Sleep(silence - redlock.DefaultNodeTimeout)
			c.Nodes[0].Proxy().Resume()
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			s := r.Stats().Nodes[0]
			assert.Equal(t, wantUnknown, s.Unknown)
			assert.True(t, s.Up)
			assert.Len(t, rec.TakeOf(redlock.EventNodeDown), int(wantUnknown))
			_ = held.Unlock(t.Context())
			time.Sleep(3 * time.Minute)
			assert.Empty(t, keys(t, c.Nodes[1]))
			cycle(t, r, "b", ttl)
		})
	}
}

// At most one node's requests wait at a time: the others have a quorum meanwhile, however far the nodes are.
func TestConnectionAgeChangesOneNodeAtATime(t *testing.T) {
	const trip = 160 * time.Millisecond // Twice that is more than the node timeout.
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newOver(t, farNodes(t, c, trip), redlock.WithConnectionAge(0), redlock.WithHook(rec.Hook))
		warm(t, r)
		time.Sleep(time.Second)
		var callers sync.WaitGroup
		var over atomic.Bool
		for i := range 4 {
			callers.Go(func() {
				for !over.Load() {
					time.Sleep(time.Duration(i) * 7 * time.Millisecond)
					l, err := r.TryLock(t.Context(), []string{fmt.Sprint("r", i)}, ttl)
					if assert.NoError(t, err) {
						assert.NoError(t, l.Extend(t.Context(), ttl))
						assert.NoError(t, l.Unlock(t.Context()))
					}
				}
			})
		}
		time.Sleep(time.Second)
		for range 4 {
			for _, n := range redlock.NodesIn(r) {
				n.LookAgain()
			}
			time.Sleep(31 * time.Second)
		}
		over.Store(true)
		callers.Wait()
		assert.GreaterOrEqual(t, connects(r), int64(3+3*3))
		assert.Zero(t, r.Stats().Nodes[0].Unknown)
		assert.Empty(t, rec.TakeOf(redlock.EventNodeDown), "nothing is told of a change")
		time.Sleep(time.Second)
		requireNoKeys(t, c)
	})
}

// The subscription follows: who waits hears of a release on the new server, and hardly later than before.
func TestConnectionAgeMovesTheSubscription(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, c *testcluster.Cluster) {
		var moved atomic.Bool
		pool := keeping(t, movable(&moved, c), 5)
		r := newOver(t, []redlock.Node{{Name: "a", Pool: pool}}, redlock.WithConnectionAge(0))
		held := tryLock(t, r, []string{"a"}, time.Hour)
		w := startLock(t, r, []string{"a"}, redlock.WithRetryDelay(10*time.Second), redlock.WithRetryJitter(0))
		time.Sleep(time.Second)
		moved.Store(true)
		require.NoError(t, c.Nodes[1].Set("a", held.Token(), time.Hour))
		redlock.NodesIn(r)[0].LookAgain()
		time.Sleep(time.Second)
		start := time.Now()
		other := newOver(t, []redlock.Node{{Name: "a", Pool: c.Nodes[1].Pool()}})
		require.NoError(t, other.Release(t.Context(), []string{"a"}, held.Token()))
		l := w.got(t)
		assert.Less(t, time.Since(start), 10*time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(5 * time.Minute)
	})
}

// A pool that is the application's, too, does not get a connection that leads elsewhere by now.
func TestConnectionAgeLeavesNoOldConnectionInThePool(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, c *testcluster.Cluster) {
		var moved atomic.Bool
		pool := keeping(t, movable(&moved, c), 0)
		r := newOver(t, []redlock.Node{{Name: "a", Pool: pool}}, redlock.WithConnectionAge(0))
		warm(t, r)
		moved.Store(true)
		redlock.NodesIn(r)[0].LookAgain()
		synctest.Wait()
		assert.EqualValues(t, 2, connects(r))
		assert.Zero(t, c.Nodes[0].Proxy().Conns())
		assert.Equal(t, 1, c.Nodes[1].Proxy().Conns())
		time.Sleep(time.Minute)
	})
}

// The old connection breaks while a second one is being made, to a server that hangs. Nothing is left of that attempt
// when the next connection is there.
func TestConnectionAgeEndsWithTheOldConnection(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, c *testcluster.Cluster) {
		var moved atomic.Bool
		r := newOver(t, []redlock.Node{{Name: "a", Pool: movable(&moved, c)}}, redlock.WithConnectionAge(0))
		warm(t, r)
		moved.Store(true)
		require.NoError(t, c.Nodes[1].Hang())
		redlock.NodesIn(r)[0].LookAgain()
		synctest.Wait()
		require.Equal(t, 1, c.Nodes[1].Proxy().Conns())
		moved.Store(false)
		c.Nodes[0].Proxy().Kill()
		time.Sleep(50 * time.Millisecond)
		cycle(t, r, "a", ttl)
		synctest.Wait()
		assert.Equal(t, 1, c.Nodes[0].Proxy().Conns())
		assert.Zero(t, c.Nodes[1].Proxy().Conns())
		assert.EqualValues(t, 3, connects(r))
		require.NoError(t, c.Nodes[1].Resume())
		time.Sleep(5 * time.Second)
		assert.EqualValues(t, 3, connects(r))
		cycle(t, r, "a", ttl)
	})
}
