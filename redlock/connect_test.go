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

// farNodes returns the nodes of a cluster with a round trip to them, which making a
// connection takes, too, and one more for each of three exchanges (TLS, AUTH) before the
// handshake.
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
	const ms = time.Millisecond
	calls := map[string]func(t *testing.T, r *redlock.Redlock) error{
		"TryLock": func(t *testing.T, r *redlock.Redlock) error {
			l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			if err == nil {
				assert.Greater(t, time.Until(l.Until()), ttl*98/100, "the wait has used up no validity")
				err = l.Unlock(t.Context())
			}
			return err
		},
		"Do": func(t *testing.T, r *redlock.Redlock) error {
			return r.Do(t.Context(), []string{"a"}, ttl, func(context.Context, *redlock.Lock) error { return nil }, redlock.WithRetryCount(0))
		},
		"Inspect": func(t *testing.T, r *redlock.Redlock) error {
			in, err := r.Inspect(t.Context(), "a")
			for _, n := range in.Nodes {
				err = errors.Join(err, n.Err)
			}
			return err
		},
	}
	for name, call := range calls {
		for _, trip := range []time.Duration{80 * ms, 0, ms, 20 * ms, 40 * ms}[:rounds(5, 2)] {
			for _, n := range []int{3, 1, 5}[:rounds(3, 1)] {
				inBubble(t, n, func(t *testing.T, c *testcluster.Cluster) {
					r := newOver(t, farNodes(t, c, trip))
					require.NoError(t, call(t, r), "%s, round trip %v, %d nodes", name, trip, n)
					time.Sleep(time.Second)
					c.Reset()
					synctest.Wait()
					require.NoError(t, call(t, r), "%s after a break, round trip %v, %d nodes", name, trip, n)
					time.Sleep(time.Second)
				})
			}
		}
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
	for name, c := range map[string]struct {
		end  func(cancel context.CancelFunc, r *redlock.Redlock)
		want error
	}{
		"cancel": {func(cancel context.CancelFunc, _ *redlock.Redlock) { cancel() }, context.Canceled},
		"Close":  {func(_ context.CancelFunc, r *redlock.Redlock) { _ = r.Close(context.Background()) }, redlock.ErrClosed},
	} {
		runInBubble(t, name, 3, func(t *testing.T, cl *testcluster.Cluster) {
			asked := countCommands(t, "SET", cl.Nodes...)
			r := newOver(t, farNodes(t, cl, 100*time.Millisecond))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			start := time.Now()
			time.AfterFunc(150*time.Millisecond, func() { c.end(cancel, r) })
			_, err := r.TryLock(ctx, []string{"a"}, ttl)
			require.ErrorIs(t, err, c.want)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			assert.Equal(t, 150*time.Millisecond, time.Since(start))
			no := quorumError(t, err)
			require.Len(t, no.Votes, 3)
			for _, v := range no.Votes {
				require.ErrorIs(t, v.Err, node.ErrUnreached)
			}
			time.Sleep(5 * time.Second)
			require.NoError(t, r.Close(context.Background()))
			synctest.Wait()
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

// Connecting takes one round trip besides those of the network and of TLS: the login and the
// scripts go together.
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

// movable is a node whose address leads to the second of two servers once moved.
func movable(moved *atomic.Bool, from, to *testcluster.Node) redlock.Pool {
	name := dialerOf(from)
	name.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		if moved.Load() {
			return to.Dial(ctx)
		}
		return from.Dial(ctx)
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
		"MASTERDOWN Link with MASTER is down",
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
		l := lockOnAll(t, r, []string{"a"}, time.Hour)
		synctest.Wait()
		for _, n := range c.Nodes {
			require.NoError(t, n.OnCommand(nil))
			require.NoError(t, n.SetError(""))
		}
		for _, s := range r.Stats().Nodes {
			require.True(t, s.Up)
		}
		require.NoError(t, l.Unlock(t.Context()))
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
		// A black hole is noticed although nobody asks for anything.
		c.Nodes[0].Proxy().BlackHole(true)
		time.Sleep(time.Minute)
		assert.False(t, r.Stats().Nodes[0].Up)
		c.Nodes[0].Proxy().BlackHole(false)
		time.Sleep(3 * time.Second)
		assert.True(t, r.Stats().Nodes[0].Up)
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

// One that asks when the oldest request has been unanswered for the node timeout
// would only time out, too.
func TestConnectionThatIsSilentIsNotAskedOnceTheNodeTimeoutIsOver(t *testing.T) {
	withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		require.NoError(t, c.Nodes[0].Hang())
		tryLock(t, r, []string{"a"}, ttl)
		vote := func() error {
			in, err := r.Inspect(t.Context(), "b")
			require.NoError(t, err)
			return in.Nodes[0].Err
		}
		time.Sleep(time.Millisecond)
		require.ErrorIs(t, vote(), redlock.ErrNodeTimeout, "it was asked: it was not late yet")
		require.ErrorIs(t, vote(), node.ErrSilent)
	})
}

func TestConnectionHealsWithin3sAfterABlackHoleOf60s(t *testing.T) {
	for name, pool := range map[string]func(t *testing.T, c *testcluster.Cluster, n *testcluster.Node) redlock.Pool{
		"NewNode": func(_ *testing.T, c *testcluster.Cluster, n *testcluster.Node) redlock.Pool {
			return redlock.NewNode(n.Addr(), redis.DialContextFunc(c.DialContext)).Pool
		},
		"deaf pool": func(t *testing.T, _ *testcluster.Cluster, n *testcluster.Node) redlock.Pool {
			p := testkit.DeafPool(n)
			t.Cleanup(func() { _ = p.Close() })
			return p
		},
	} {
		for i := range rounds(10, 2) { // Several holes, as the waits between the attempts are random.
			runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
				var nodes []redlock.Node
				for _, n := range c.Nodes {
					nodes = append(nodes, redlock.Node{Name: n.Name(), Pool: pool(t, c, n)})
				}
				r := newOver(t, nodes)
				if i%2 == 0 {
					warm(t, r)
				}
				c.Nodes[0].Proxy().BlackHole(true)
				for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
					cycle(t, r, "a", time.Minute)
				}
				c.Nodes[0].Proxy().BlackHole(false)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				l := lockOnAll(t, r, []string{"a"}, time.Minute)
				require.Equal(t, 3, holders(t, c, l), "%v", r.Stats().Nodes[0])
				require.NoError(t, l.Unlock(t.Context()))
				requireReleased(t, c)
			})
		}
	}
}

// A pool whose calls hang for good must not keep its node away for good.
func TestConnectionComesBackFromAHoleOfAnyLength(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		n := c.Nodes[0]
		pool := testkit.DeafPool(n)
		defer func() { _ = pool.Close() }()
		r := newOver(t, []redlock.Node{{n.Name(), pool}})
		warm(t, r)
		n.Proxy().BlackHole(true)
		time.Sleep(time.Hour)
		require.Less(t, redlock.NodesIn(r)[0].Source.Stuck(), conn.MaxStuck+130, "one more every StuckPause")
		n.Proxy().BlackHole(false)
		time.Sleep(conn.StuckPause + 3*time.Second)
		cycle(t, r, "a", ttl)
	})
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
	mortal := func(name string, test func(t *testing.T, r *redlock.Redlock, die func(), events *recorder)) {
		runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
			nodes, die := mortalNodes(c)
			var events recorder
			test(t, newOver(t, nodes, redlock.WithHook(events.Hook)), die, &events)
		})
	}
	mortal("a young connection", func(t *testing.T, r *redlock.Redlock, die func(), events *recorder) {
		require.NoError(t, r.Ready(t.Context()))
		time.Sleep(300 * time.Millisecond)
		die()
		testkit.WallOffset(r).Add(int64(time.Hour))
		cycle(t, r, "a", ttl)
		assert.NotContains(t, kinds(events.TakeAll()), redlock.EventNodeDown)
	})
	for _, slept := range []time.Duration{100 * time.Millisecond, 2 * time.Second, time.Hour} {
		name := "a release comes first, " + slept.String()
		mortal(name, func(t *testing.T, r *redlock.Redlock, die func(), _ *recorder) {
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
	mortal("again and again", func(t *testing.T, r *redlock.Redlock, die func(), _ *recorder) {
		cycle(t, r, "a", ttl)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(15 * time.Millisecond):
					testkit.WallOffset(r).Add(int64(60 * time.Millisecond))
				}
			}
		}()
		time.Sleep(time.Millisecond)
		die()
		over(t, r, 3*time.Second)
	})
	mortal("the wall clock was set back", func(t *testing.T, r *redlock.Redlock, die func(), _ *recorder) {
		cycle(t, r, "a", ttl)
		testkit.WallOffset(r).Add(-int64(time.Hour))
		cycle(t, r, "a", ttl)
		time.Sleep(time.Second)
		die()
		testkit.WallOffset(r).Add(int64(time.Minute))
		cycle(t, r, "a", ttl)
	})
	runInBubble(t, "none, with a short node timeout", 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithNodeTimeout(5*time.Millisecond))
		cycle(t, r, "a", ttl)
		before := connects(r)
		for range 20 {
			testkit.WallOffset(r).Add(int64(8 * time.Millisecond))
			time.Sleep(20 * time.Second)
		}
		assert.Equal(t, before, connects(r))
	})
}
