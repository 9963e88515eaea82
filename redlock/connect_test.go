package redlock_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// farNodes returns the nodes of a cluster with a round trip to them, which making a connection takes, too, and one more
// for each of three exchanges (TLS, AUTH) before the handshake.
func farNodes(t *testing.T, c *testcluster.Cluster, trip time.Duration) []redlock.Node {
	t.Helper()
	nodes := make([]redlock.Node, len(c.Nodes))
	for i, n := range c.Nodes {
		require.NoError(t, n.Slow(trip/2, trip/2))
		nodes[i] = redlock.Node{Name: n.Name(), Pool: redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
			time.Sleep(4 * trip)
			return dialerOf(n).GetContext(ctx)
		})}
	}
	return nodes
}

// By the first call, and by one after connections have broken, as they are made again then.
func TestConnectingIsWaitedForByTheFirstLock(t *testing.T) {
	for _, trip := range []time.Duration{80 * time.Millisecond, time.Millisecond} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newOver(t, farNodes(t, c, trip))
			l := tryLock(t, r, []string{"a"}, ttl)
			assert.Greater(t, time.Until(l.Until()), ttl*98/100, "the wait has used up no validity")
			require.NoError(t, l.Unlock(t.Context()))
			for _, call := range []func(){
				func() { cycle(t, r, "a", ttl) },
				func() {
					in, err := r.Inspect(t.Context(), "a")
					require.NoError(t, errors.Join(err, in.Nodes[0].Err, in.Nodes[1].Err, in.Nodes[2].Err))
				},
			} {
				time.Sleep(time.Second)
				c.Reset()
				synctest.Wait()
				call()
			}
		})
	}
}

func TestConnectingIsWaitedForByAReleaseByToken(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		holder := newRedlock(t, c)
		l := tryLock(t, holder, []string{"a"}, time.Minute)
		r := newOver(t, farNodes(t, c, 80*time.Millisecond))
		require.NoError(t, r.Release(cancelled(t), []string{"a"}, l.Token()), "its context does not matter")
	})
}

// No connection is waited for longer than until it fails, when the others are connected already.
func TestConnectingIsNotWaitedForOnceAMajorityHasFailed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes := nodesOf(c)
		for i := range nodes[:2] {
			nodes[i].Pool = redlock.PoolFunc(func(context.Context) (redis.Conn, error) {
				time.Sleep(100 * time.Millisecond)
				return nil, errors.New("no route to host")
			})
		}
		r := newOver(t, nodes)
		assert.Equal(t, 100*time.Millisecond, took(func() { refused(t, redlock.ErrNoQuorum, r, []string{"a"}, ttl) }))
	})
}

func TestConnectingIsWaitedForNoLongerThanTheCall(t *testing.T) {
	for want, end := range map[error]func(cancel context.CancelFunc, r *redlock.Redlock){
		context.Canceled:  func(cancel context.CancelFunc, _ *redlock.Redlock) { cancel() },
		redlock.ErrClosed: func(_ context.CancelFunc, r *redlock.Redlock) { _ = r.Close(context.Background()) },
	} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			asked := countCommands(t, "SET", c.Nodes...)
			r := newOver(t, farNodes(t, c, 100*time.Millisecond))
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(150*time.Millisecond, func() { end(cancel, r) })
			start := time.Now()
			_, err := r.TryLock(ctx, []string{"a"}, ttl)
			require.ErrorIs(t, err, want)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			assert.Equal(t, 150*time.Millisecond, time.Since(start))
			cancel()
			time.Sleep(5 * time.Second)
			assert.Zero(t, asked.Load(), "no node was asked")
		})
	}
}

func TestConnectTimeoutOfZeroDoesNotWait(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newOver(t, farNodes(t, c, 100*time.Millisecond), redlock.WithConnectTimeout(0))
		start := time.Now()
		refused(t, redlock.ErrNoQuorum, r, []string{"a"}, ttl)
		assert.Equal(t, redlock.DefaultNodeTimeout, time.Since(start))
		time.Sleep(time.Second)
		cycle(t, r, "a", ttl)
	})
}

// Besides those of the network and of TLS: the login and the scripts go together.
func TestConnectHandshakeTakesOneRoundTrip(t *testing.T) {
	const trip = 100 * time.Millisecond
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes := nodesOf(c)
		for i, n := range c.Nodes {
			d := dialerOf(n)
			d.Login = [][]any{{"SELECT", 3}}
			nodes[i].Pool = d
			require.NoError(t, n.Slow(trip/2, trip/2))
		}
		r := newOver(t, nodes)
		start := time.Now()
		l := tryLock(t, r, []string{"a"}, ttl)
		assert.Equal(t, 2*trip, time.Since(start))
		requireNoKeys(t, c) // Those of database 0.
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(time.Second)
	})
}

// movable is a node whose address leads to the second of the servers once moved.
func movable(moved *atomic.Bool, c *testcluster.Cluster) redlock.Pool {
	name := dialerOf(c.Nodes[0])
	name.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		if moved.Load() {
			return c.Nodes[1].Dial(ctx)
		}
		return c.Nodes[0].Dial(ctx)
	}
	return name
}

// A replica that has taken the place of a master counts as down, for that reason: no attempt waits for it, it is not
// dialled in a loop, and the next master is told what was to be released.
func TestConnectToAWrongServer(t *testing.T) {
	withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		const msg = "READONLY You can't write against a read only replica."
		l := lockOnAll(t, r, []string{"a"}, time.Hour)
		require.NoError(t, c.SetError(msg))
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrNoQuorum)
		synctest.Wait()
		assert.False(t, r.Stats().Nodes[0].Up, "though nothing but a release was refused")
		for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(scenario(100*time.Millisecond, 400*time.Millisecond)) {
			require.Zero(t, took(func() { refused(t, redlock.ErrNoQuorum, r, []string{"b"}, ttl) }))
		}
		for _, s := range r.Stats().Nodes {
			assert.False(t, s.Up)
			require.ErrorContains(t, s.Err, msg)
			assert.Less(t, s.Connects, int64(100), "in a minute")
		}
		require.NoError(t, c.SetError(""))
		time.Sleep(2 * node.MaxBackoff)
		requireReleased(t, c)
		cycle(t, r, "a", ttl)
	})
}

// What the wrong server has refused was not carried out: nothing is unknown, and nothing is owed.
func TestConnectToAWrongServerLeavesNothing(t *testing.T) {
	for _, msg := range []string{
		"READONLY You can't write against a read only replica.",
		"NOAUTH Authentication required.",
	} {
		withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			require.NoError(t, c.Slow(time.Millisecond, time.Millisecond)) // All are asked.
			require.NoError(t, c.SetError(msg))
			_, err := r.TryLock(t.Context(), []string{"a"}, time.Hour)
			for _, v := range votesOf(t, err)[:2] {
				if !errors.Is(v.Err, redlock.ErrPending) {
					require.EqualError(t, v.Err, msg)
				}
			}
			synctest.Wait()
			for _, s := range r.Stats().Nodes {
				require.False(t, s.Up)
				require.Zero(t, s.Unknown)
				require.Zero(t, s.PendingReleases+s.Repeats)
			}
			require.NoError(t, c.SetError(""))
		})
	}
}

// Of a lock request's two replies, the second is a hint.
func TestConnectTakesNoHintForAWrongServer(t *testing.T) {
	withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		for _, n := range c.Nodes {
			require.NoError(t, n.OnCommand(func(cmd string, _ []string) {
				if cmd == "PTTL" {
					assert.NoError(t, n.SetError("MASTERDOWN Link with MASTER is down"))
				}
			}))
		}
		lockOnAll(t, r, []string{"a"}, time.Hour)
		synctest.Wait()
		for _, s := range r.Stats().Nodes {
			require.True(t, s.Up)
		}
	})
}

// A caller that has no patience, or no time, harms nobody else.
func TestConnectionIsNotFailedByOneCallersShortTimeout(t *testing.T) {
	for life, opts := range map[time.Duration][]redlock.Option{
		ttl: {redlock.WithNodeTimeout(time.Millisecond)}, 5 * time.Millisecond: nil,
	} {
		withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			require.NoError(t, c.Slow(10*time.Millisecond, 10*time.Millisecond))
			short := meanwhile(func() error { return lockError(r.TryLock(t.Context(), []string{"x"}, life, opts...)) })
			time.Sleep(15 * time.Millisecond)
			cycle(t, r, "a", ttl)
			require.ErrorIs(t, <-short, redlock.ErrNoQuorum)
		})
	}
}

func TestConnectionThatIsIdleIsKeptAlive(t *testing.T) {
	withWarm(t, 1, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		pings := countCommands(t, "PING", c.Nodes[0])
		time.Sleep(10 * time.Minute)
		assert.InDelta(t, 40, pings.Load(), 2)
		assert.Equal(t, int64(1), r.Stats().Nodes[0].Connects)
		// One that has served an answer and breaks is made again at once.
		for range 3 {
			cycle(t, r, "a", ttl)
			c.Reset()
			synctest.Wait()
			assert.True(t, r.Stats().Nodes[0].Up)
		}
	})
}

func TestConnectionThatIsDeadIsFoundWithinAboutASecond(t *testing.T) {
	withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		c.Nodes[0].Proxy().BlackHole(true)
		tryLock(t, r, []string{"a"}, ttl)
		synctest.Wait()                     // The request to the node, for which nobody waits, is swallowed.
		c.Nodes[0].Proxy().BlackHole(false) // Only for connections made from now on.
		time.Sleep(1300 * time.Millisecond)
		require.True(t, r.Stats().Nodes[0].Up)
		require.EqualValues(t, 2, r.Stats().Nodes[0].Connects)
	})
}

// A pool whose calls hang for good must not keep its node away for good.
func TestConnectionHealsAfterABlackHole(t *testing.T) {
	for hole, heals := range map[time.Duration]time.Duration{
		time.Minute: 3 * time.Second, time.Hour: conn.StuckPause + 3*time.Second,
	} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			nodes := nodesOf(c)
			pool := testkit.DeafPool(c.Nodes[0])
			defer func() { _ = pool.Close() }()
			nodes[0].Pool = pool
			r := newOver(t, nodes)
			warm(t, r)
			c.Nodes[0].Proxy().BlackHole(true)
			time.Sleep(hole)
			require.Less(t, redlock.NodesIn(r)[0].Source.Stuck(), conn.MaxStuck+130, "one more every StuckPause")
			c.Nodes[0].Proxy().BlackHole(false)
			time.Sleep(heals)
			l := lockOnAll(t, r, []string{"a"}, time.Minute)
			require.NoError(t, l.Unlock(t.Context()))
		})
	}
}

// A lingerConn notes for how long its kernel goes on to deliver after the end.
type lingerConn struct {
	net.Conn

	linger *atomic.Int64
}

func (c lingerConn) SetLinger(seconds int) error {
	c.linger.CompareAndSwap(-1, int64(seconds))
	return nil
}

// Close ends it: a kernel hears no more of it then.
func (c lingerConn) Close() error {
	c.linger.CompareAndSwap(-1, -2)
	return c.Conn.Close()
}

// What is given up is reset: after a plain close, the kernel would deliver requests once the network is back.
func TestConnectionThatIsGivenUpIsReset(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		var linger atomic.Int64
		linger.Store(-1)
		d := dialerOf(c.Nodes[0], func(c net.Conn) net.Conn { return lingerConn{c, &linger} })
		r := newOver(t, []redlock.Node{{Name: "n", Pool: d}})
		warm(t, r)
		c.Nodes[0].Proxy().BlackHole(true)
		refused(t, redlock.ErrNoQuorum, r, []string{"a"}, ttl)
		time.Sleep(node.Silence(0))
		assert.Zero(t, linger.Load())
	})
}

// A mortalConn is a connection that has died without a sign: nothing that is written arrives any more.
type mortalConn struct {
	net.Conn

	dead *atomic.Bool
}

func (c mortalConn) Write(b []byte) (int, error) {
	if c.dead.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// mortalNodes returns the nodes of a cluster, and what has the connections made so far die.
func mortalNodes(c *testcluster.Cluster) (nodes []redlock.Node, die func()) {
	var latest atomic.Pointer[atomic.Bool]
	latest.Store(new(atomic.Bool))
	for _, n := range c.Nodes {
		pool := dialerOf(n, func(c net.Conn) net.Conn { return mortalConn{c, latest.Load()} })
		nodes = append(nodes, redlock.Node{Name: n.Name(), Pool: pool})
	}
	return nodes, func() { latest.Swap(new(atomic.Bool)).Store(true) }
}

// A machine that is suspended, or a function that is frozen, keeps connections of which the other end has forgotten.
func TestFirstLockAfterAStandstillFindsConnectionsThatLive(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Slow(10*time.Millisecond, 10*time.Millisecond))
		nodes, die := mortalNodes(c)
		var events recorder
		r := newOver(t, nodes, redlock.WithHook(events.Hook))
		for _, idle := range []time.Duration{100 * time.Millisecond, time.Second, time.Minute} {
			cycle(t, r, "a", ttl)
			time.Sleep(idle)
			events.TakeAll()
			die()
			testkit.WallOffset(r).Add(int64(time.Hour))
			assert.Less(t, took(func() { cycle(t, r, "a", ttl) }), 100*time.Millisecond, "handshake, lock and release")
			synctest.Wait()
			assert.NotContains(t, kinds(events.TakeAll()), redlock.EventNodeDown, "that is no failure of the nodes")

			c.Kill()
			time.Sleep(time.Second)
			assert.Len(t, events.TakeOf(redlock.EventNodeDown), 3, "that is one")
		}
		before := connects(r)
		time.Sleep(time.Minute)
		testkit.WallOffset(r).Add(int64(200 * time.Millisecond))
		cycle(t, r, "a", ttl)
		assert.Equal(t, before, connects(r), "less than the node timeout")

		// What is on its way is not cut off.
		require.NoError(t, c.Slow(50*time.Millisecond, 50*time.Millisecond))
		done := meanwhile(func() error { return lockError(r.TryLock(context.Background(), []string{"b"}, ttl)) })
		time.Sleep(30 * time.Millisecond)
		testkit.WallOffset(r).Add(int64(300 * time.Millisecond))
		cycle(t, r, "c", ttl) // It notices.
		require.NoError(t, <-done)
	})
}

// Further ways into a standstill: nothing was asked on the connection yet, what comes first is no attempt, and others.
func TestStandstillIsOverSoon(t *testing.T) {
	over := func(t *testing.T, r *redlock.Redlock, within time.Duration) {
		t.Helper()
		begun := time.Now()
		for lockError(r.TryLock(t.Context(), []string{"b"}, ttl)) != nil {
			require.Less(t, time.Since(begun), within)
			time.Sleep(50 * time.Millisecond)
		}
	}
	mortal := func(name string, test func(t *testing.T, r *redlock.Redlock, die func())) {
		runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
			nodes, die := mortalNodes(c)
			test(t, newOver(t, nodes), die)
		})
	}
	for _, slept := range []time.Duration{100 * time.Millisecond, 2 * time.Second, time.Hour} {
		mortal("a release comes first, "+slept.String(), func(t *testing.T, r *redlock.Redlock, die func()) {
			l := tryLock(t, r, []string{"a"}, 2*time.Hour)
			time.Sleep(2 * time.Second)
			die()
			testkit.WallOffset(r).Add(int64(slept))
			err := l.Unlock(t.Context())
			if slept > redlock.DefaultNodeTimeout {
				require.NoError(t, err, "its connection is a new one")
			}
			over(t, r, 2*time.Second)
		})
	}
	mortal("again and again", func(t *testing.T, r *redlock.Redlock, die func()) {
		cycle(t, r, "a", ttl)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for ; ctx.Err() == nil; time.Sleep(15 * time.Millisecond) {
				testkit.WallOffset(r).Add(int64(60 * time.Millisecond))
			}
		}()
		time.Sleep(time.Millisecond)
		die()
		over(t, r, 3*time.Second)
		cancel()
		time.Sleep(20 * time.Millisecond)
	})
}
