package redlock_test

import (
	"context"
	"errors"
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

// Each connection is made anew each second, while locks are taken, extended and released as fast as it goes.
func TestConnectionAgeUnderLoad(t *testing.T) {
	for name, opts := range map[string][]redlock.Option{
		"plain": nil, "fences": {redlock.WithFencing()}, "min hold": {redlock.WithMinHold(20 * time.Millisecond)},
		"quarantine": {redlock.WithQuarantine(time.Minute)},
	} {
		for kind, nodes := range map[string]func(c *testcluster.Cluster) []redlock.Node{"pools": nodesOf, "dialers": dialersOf} {
			if testing.Short() && kind == "pools" && opts != nil {
				continue
			}
			runInBubble(t, name+", "+kind, 3, func(t *testing.T, c *testcluster.Cluster) {
				require.NoError(t, c.Slow(time.Millisecond, 5*time.Millisecond))
				var rec recorder
				r := newOver(t, nodes(c), append(opts, redlock.WithConnectionAge(time.Second), redlock.WithHook(rec.Hook))...)
				if name == "quarantine" {
					for _, n := range c.Nodes {
						require.NoError(t, r.Admit(t.Context(), n.Name()))
					}
				}
				end := time.Now().Add(scenario(time.Minute, 3*time.Second))
				var callers sync.WaitGroup
				for i := range 5 {
					callers.Go(func() {
						for fence := int64(0); time.Now().Before(end); {
							l, err := r.TryLock(t.Context(), []string{fmt.Sprint("r", i)}, ttl)
							if assert.NoError(t, err) {
								assert.NoError(t, l.Extend(t.Context(), ttl))
								assert.True(t, fence == 0 || l.Fence() > fence)
								fence = l.Fence()
								assert.NoError(t, l.Unlock(t.Context()))
							}
							time.Sleep(time.Duration(i)*scenario(time.Millisecond, 10*time.Millisecond) + scenario(0, 2*time.Millisecond))
							if name == "min hold" {
								time.Sleep(50 * time.Millisecond)
							}
						}
					})
				}
				callers.Wait()
				time.Sleep(100 * time.Millisecond)
				for _, n := range r.Stats().Nodes {
					assert.Greater(t, n.Connects, int64(scenario(time.Minute, 3*time.Second)/time.Second*9/10))
					assert.Zero(t, n.Unknown)
				}
				time.Sleep(ttl)
				requireNoKeys(t, c)
				ups := rec.TakeOf(redlock.EventNodeUp)
				assert.Len(t, ups, 3, "nothing is told of a change")
				assert.Empty(t, rec.TakeOf(redlock.EventNodeDown))
				require.NoError(t, r.Close(t.Context()))
				synctest.Wait()
				for _, n := range c.Nodes {
					assert.Zero(t, n.Proxy().Conns())
				}
			})
		}
	}
}

// dialersOf returns the nodes of a cluster with addresses instead of pools.
func dialersOf(c *testcluster.Cluster) []redlock.Node {
	nodes := nodesOf(c)
	for i, n := range c.Nodes {
		nodes[i].Pool = dialerOf(n)
	}
	return nodes
}

// The last of three names leads to another server, and the old one lives. With a pool that has kept a connection to
// the old one, too.
func TestConnectionAgeFollowsAName(t *testing.T) {
	for _, kept := range []int{0, 3} {
		runInBubble(t, fmt.Sprint(kept, " idle"), 4, func(t *testing.T, c *testcluster.Cluster) {
			var moved atomic.Bool
			nodes := nodesOf(c)[:3]
			name := movable(&moved, c.Nodes[2], c.Nodes[3])
			if kept > 0 {
				nodes[2].Pool = keeping(t, name, kept)
			} else {
				nodes[2].Pool = name
			}
			var rec recorder
			r := newOver(t, nodes, redlock.WithConnectionAge(30*time.Second), redlock.WithHook(rec.Hook))
			w := newOver(t, nodes[:2])
			require.NotNil(t, w)
			l := lockOnAll(t, r, []string{"held"}, time.Minute)
			moved.Store(true)
			time.Sleep(30 * time.Second)
			require.NoError(t, l.Extend(t.Context(), time.Minute))
			synctest.Wait()
			assert.Equal(t, l.Token(), keys(t, c.Nodes[3])["held"].Value, "it was repaired there")
			require.NoError(t, l.Unlock(t.Context()))
			cycle(t, r, "a", ttl)
			assert.EqualValues(t, 2, r.Stats().Nodes[2].Connects)
			assert.Empty(t, rec.TakeOf(redlock.EventNodeDown))
			time.Sleep(time.Hour)
		})
	}
}

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
	const msg = "ERR max number of clients reached"
	for name, spoil := range map[string]func(ctx context.Context, n *testcluster.Node) (redis.Conn, error){
		"refused": func(context.Context, *testcluster.Node) (redis.Conn, error) { return nil, errors.New(msg) },
		"hanging": func(ctx context.Context, _ *testcluster.Node) (redis.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"panics": func(context.Context, *testcluster.Node) (redis.Conn, error) { panic(msg) },
		"silent": func(ctx context.Context, _ *testcluster.Node) (redis.Conn, error) {
			client, _ := testcluster.Pipe()
			return redis.NewConn(client, 0, 0), nil
		},
	} {
		runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
			var spoilt atomic.Bool
			nodes := nodesOf(c)
			for i, n := range c.Nodes {
				nodes[i].Pool = redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
					if spoilt.Load() {
						return spoil(ctx, n)
					}
					return n.Conn(ctx)
				})
			}
			var rec recorder
			r := newOver(t, nodes, redlock.WithConnectionAge(10*time.Second), redlock.WithHook(rec.Hook))
			warm(t, r)
			l := lockOnAll(t, r, []string{"held"}, time.Hour)
			spoilt.Store(true)
			for start := time.Now(); time.Since(start) < 10*time.Minute; time.Sleep(scenario(300*time.Millisecond, 3*time.Second)) {
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

// Close comes at every moment of a change that takes long: while it dials, waits and has just changed.
func TestConnectionAgeAndClose(t *testing.T) {
	const trip = 40 * time.Millisecond
	for at := time.Duration(0); at <= 8*trip; at += scenario(trip/4, trip) {
		runInBubble(t, at.String(), 3, func(t *testing.T, c *testcluster.Cluster) {
			nodes := farNodes(t, c, trip)
			r := newOver(t, nodes, redlock.WithConnectionAge(0))
			warm(t, r)
			time.Sleep(time.Second)
			l := lockOnAll(t, r, []string{"a"}, time.Hour)
			redlock.NodesIn(r)[0].LookAgain()
			time.Sleep(at)
			go func() { _ = l.Unlock(context.Background()) }()
			synctest.Wait()
			assert.LessOrEqual(t, took(func() { require.NoError(t, r.Close(t.Context())) }), 3*trip)
			requireNoKeys(t, c)
			synctest.Wait()
			for _, n := range c.Nodes {
				assert.Zero(t, n.Proxy().Conns())
			}
			time.Sleep(time.Second) // For the pool, which ignores its context.
		})
	}
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
			r := newOver(t, []redlock.Node{{Name: "a", Pool: movable(&moved, c.Nodes[0], c.Nodes[1])}},
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
		r := newOver(t, farNodes(t, c, trip), redlock.WithConnectionAge(0))
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
		time.Sleep(time.Second)
	})
}

// The subscription follows: who waits hears of a release on the new server, and hardly later than before.
func TestConnectionAgeMovesTheSubscription(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, c *testcluster.Cluster) {
		var moved atomic.Bool
		pool := keeping(t, movable(&moved, c.Nodes[0], c.Nodes[1]), 5)
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
		pool := keeping(t, movable(&moved, c.Nodes[0], c.Nodes[1]), 0)
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
		r := newOver(t, []redlock.Node{{Name: "a", Pool: movable(&moved, c.Nodes[0], c.Nodes[1])}}, redlock.WithConnectionAge(0))
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
