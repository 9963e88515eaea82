package redlock_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

func TestStatsShowWaiting(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newRedlock(t, c, redlock.WithHook(rec.Hook))
		held := lockElsewhere(t, c, "x", time.Hour)
		opts := []redlock.Option{redlock.WithRetryDelay(time.Second), redlock.WithRetryJitter(0)}
		first := startLock(t, r, []string{"x"}, opts...)
		second := startLock(t, r, []string{"x"}, opts...)
		time.Sleep(2 * time.Second)
		assert.Equal(t, 2, r.Stats().Waiting)
		require.NoError(t, held.Unlock(t.Context()))
		l := first.got(t)
		assert.Equal(t, 4, l.Attempts(), "the first, two timed ones, and the one that the release set off")
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, second.got(t).Unlock(t.Context()))
		synctest.Wait()
		var lines []string
		for _, e := range rec.TakeOf(redlock.EventWaiting) {
			lines = append(lines, fmt.Sprintf("%s %v %d: %d, %v, %v", e.Op, e.Resources, e.Position, e.Attempt, e.Took.Round(time.Millisecond), errors.Is(e.Err, redlock.ErrTaken)))
		}
		assert.Equal(t, []string{
			"lock [x] 1: 1, 0s, true",
			"lock [x] 1: 1, 0s, true",
			"lock [x] 2: 0, 0s, false",
			"lock [x] 1: 2, 1s, true",
			"lock [x] 2: 1, 1s, true",
			"lock [x] 1: 3, 2s, true",
			"lock [x] 2: 2, 2s, true",
			"lock [x] 1: 2, 2.05s, true",
		}, lines)
	})
}

func TestStatsMarshalToJSON(t *testing.T) {
	s := redlock.Stats{Held: 3, Nodes: []redlock.NodeStats{{Node: "n1", Up: true, Abstains: redlock.ErrQuarantined}, {Node: "n2", Err: fmt.Errorf("not connected: %w", assert.AnError), PendingReleases: 2}}}
	b, err := json.Marshal(s)
	require.NoError(t, err)
	var back struct {
		Held  int
		Nodes []struct {
			Node, Err, Abstains string
			Up                  bool
			PendingReleases     int
		}
	}
	require.NoError(t, json.Unmarshal(b, &back))
	assert.Equal(t, 3, back.Held)
	assert.Equal(t, "n1", back.Nodes[0].Node)
	assert.True(t, back.Nodes[0].Up)
	assert.Empty(t, back.Nodes[0].Err)
	assert.Equal(t, redlock.ErrQuarantined.Error(), back.Nodes[0].Abstains)
	assert.Empty(t, back.Nodes[1].Abstains)
	assert.Equal(t, "not connected: "+assert.AnError.Error(), back.Nodes[1].Err)
	assert.Equal(t, 2, back.Nodes[1].PendingReleases)
}

func TestStatsListHeldLocks(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithOwner("me"))
		assert.Empty(t, r.HeldLocks())
		start := time.Now()
		kept := waitLock(t, r, []string{"b", "a"}, 9*time.Second, redlock.WithFencing())
		ctx := kept.KeepAlive(t.Context())
		time.Sleep(time.Second)
		waitLock(t, r, []string{"c"}, 4*time.Second, redlock.WithOwner(""))
		plainStart := time.Now()
		released := waitLock(t, r, []string{"d"}, ttl)
		require.NoError(t, released.Unlock(t.Context()))
		s := r.Stats()
		assert.Equal(t, []int64{3, 1, 2}, []int64{s.Acquired, s.Unlocked, int64(s.Held)})

		locks := r.HeldLocks()
		require.Len(t, locks, 2, "the released one is gone")
		first := locks[0]
		assert.Len(t, first.Holder, 12)
		assert.NotContains(t, kept.Token(), first.Holder)
		assert.Equal(t, redlock.HeldLock{
			Resources: []string{"a", "b"}, Since: redlock.StartOf(kept), Extended: redlock.StartOf(kept), Until: kept.Until(), Fence: kept.Fence(),
			Owner: "me", Holder: first.Holder, Kept: true,
		}, first)
		assert.WithinDuration(t, start, first.Since, time.Millisecond)
		assert.Equal(t, []string{"c"}, locks[1].Resources)
		assert.False(t, locks[1].Kept)
		assert.Zero(t, locks[1].Fence)
		assert.Empty(t, locks[1].Owner)
		assert.WithinDuration(t, plainStart, locks[1].Extended, time.Millisecond)

		locks[0].Resources[0] = "mine to change"
		assert.Equal(t, []string{"a", "b"}, r.HeldLocks()[0].Resources)

		time.Sleep(5 * time.Second) // The plain one has ended; the kept one was extended.
		synctest.Wait()
		locks = r.HeldLocks()
		require.Len(t, locks, 1)
		assert.True(t, locks[0].Extended.After(locks[0].Since))
		assert.Equal(t, kept.Until(), locks[0].Until)
		assert.Len(t, locks, r.Stats().Held)
		require.NoError(t, kept.Unlock(t.Context()))
		<-ctx.Done()
		assert.Empty(t, r.HeldLocks())

		// An extension has found a loss, and nobody was told yet.
		redlock.MarkEnded(waitLock(t, r, []string{"a"}, ttl))
		assert.Empty(t, r.HeldLocks())

		// A clock that jumped forward during a suspend ends locks that the registry has not swept yet.
		waitLock(t, r, []string{"b"}, ttl)
		testkit.WallOffset(r).Store(int64(time.Hour))
		assert.Zero(t, r.Stats().Held)
		assert.Empty(t, r.HeldLocks())
	})
}

func TestStatsListWaitingCalls(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithRetryCount(-1), redlock.WithRetryDelay(time.Second), redlock.WithRetryJitter(0))
		other := newRedlock(t, c, redlock.WithOwner("them"))
		assert.Empty(t, r.WaitingCalls())
		held := waitLock(t, other, []string{"x"}, time.Hour)
		start := time.Now()
		first := startLock(t, r, []string{"x", "w"}, redlock.WithOwner("first"))
		time.Sleep(100 * time.Millisecond)
		second := startLock(t, r, []string{"x"}, redlock.WithOwner("second"))
		time.Sleep(100 * time.Millisecond)
		polls := startLock(t, r, []string{"x"}, redlock.WithPolling())
		time.Sleep(2 * time.Second)
		synctest.Wait()

		calls := r.WaitingCalls()
		require.Len(t, calls, 3)
		assert.Len(t, calls, r.Stats().Waiting)
		assert.EqualValues(t, 1+3+3, r.Stats().Taken, "the second one has asked once")
		one := calls[0]
		assert.Equal(t, []string{"w", "x"}, one.Resources)
		assert.Equal(t, "first", one.Owner)
		assert.WithinDuration(t, start, one.Since, 50*time.Millisecond)
		assert.Equal(t, 1, one.Position)
		assert.Equal(t, 3, one.Attempts)
		assert.Equal(t, redlock.ErrTaken, one.Err)
		assert.Equal(t, "them", one.HolderOwner)
		assert.Equal(t, other.HeldLocks()[0].Holder, one.Holder)
		assert.Equal(t, "second", calls[1].Owner)
		assert.Equal(t, 2, calls[1].Position)
		assert.Equal(t, 0, calls[2].Position, "it polls")
		assert.Equal(t, 3, calls[2].Attempts)
		assert.Equal(t, "them", calls[2].HolderOwner)

		polls.leaves()
		require.Len(t, r.WaitingCalls(), 2)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, first.got(t).Unlock(t.Context()))
		require.NoError(t, second.got(t).Unlock(t.Context()))
		assert.Empty(t, r.WaitingCalls())
	})
}

// Since when a call waits, and since when somebody has the lock, as long as one call knows of that one.
func TestStatsShowAHolderThatIsStuck(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithRetryCount(-1), redlock.WithRetryDelay(5*time.Second), redlock.WithRetryJitter(0))
		assert.Zero(t, r.Stats().OldestWait)
		held := lockElsewhere(t, c, "x", 24*time.Hour)
		began := time.Now()
		first := startLock(t, r, []string{"x"})
		time.Sleep(time.Minute)
		next := time.Now()
		second := startLock(t, r, []string{"x"})
		polls := startLock(t, r, []string{"x"}, redlock.WithPolling())
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		assert.Equal(t, time.Since(began), r.Stats().OldestWait)
		seen := began
		calls := r.WaitingCalls()
		require.Len(t, calls, 3)
		assert.Equal(t, seen, calls[0].HolderSince)
		assert.Equal(t, seen, calls[1].HolderSince, "it has asked nobody, but the call ahead of it has")
		assert.Equal(t, held.Holder(), calls[1].Holder)
		assert.Equal(t, seen, calls[2].HolderSince, "the first call knew that before")
		require.NoError(t, c.First(2).Stop())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for _, call := range r.WaitingCalls() {
			require.Equal(t, redlock.ErrNoQuorum, call.Err)
			assert.Equal(t, call.Holder == "", call.HolderSince.IsZero(), "without a quorum")
		}
		require.NoError(t, c.First(2).Restart(true))
		time.Sleep(10 * time.Second)

		first.leaves()
		synctest.Wait()
		assert.Equal(t, time.Since(next), r.Stats().OldestWait)

		// The next holder is of this process.
		require.NoError(t, held.Unlock(t.Context()))
		l, other := second, polls
		select {
		case <-polls.done:
			l, other = polls, second
		case <-second.done:
		}
		lock := l.got(t)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		calls = r.WaitingCalls()
		require.Len(t, calls, 1)
		assert.Equal(t, lock.Holder(), calls[0].Holder)
		assert.Equal(t, redlock.StartOf(lock), calls[0].HolderSince)
		require.NoError(t, lock.Unlock(t.Context()))
		require.NoError(t, other.got(t).Unlock(t.Context()))
		assert.Zero(t, r.Stats().OldestWait)
		assert.Empty(t, r.WaitingCalls())
	})
}

// Those behind others ask at first only: what they have seen then is not what holds them up much later.
func TestStatsShowWhatTheFirstInLineSees(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newWarm(t, c, redlock.WithRetryCount(-1), redlock.WithRetryDelay(time.Second))
		held := lockElsewhere(t, c, "x", time.Hour)
		for range 5 {
			t.Cleanup(startLock(t, r, []string{"x"}).leaves)
		}
		all := func(want error) (calls []redlock.WaitingCall) {
			t.Helper()
			synctest.Wait()
			calls = r.WaitingCalls()
			for _, call := range calls {
				assert.Equal(t, want, call.Err, call.Position)
			}
			assert.Len(t, calls, 5)
			return calls
		}
		time.Sleep(10 * time.Second)
		require.NoError(t, c.First(2).Stop())
		time.Sleep(time.Minute)
		all(redlock.ErrNoQuorum) // The node that is left may still name the holder.
		require.NoError(t, c.First(2).Restart(true))
		time.Sleep(time.Minute)
		for _, call := range all(redlock.ErrTaken) {
			assert.Equal(t, held.Holder(), call.Holder)
		}
	})
}

func TestStatsMeasureTheRoundTripTime(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		assert.Zero(t, r.Stats().Nodes[0].RTT, "nothing was asked yet")
		slow := c.Nodes[1]
		require.NoError(t, slow.Slow(40*time.Millisecond, 40*time.Millisecond))
		for range 30 {
			l := waitLock(t, r, []string{"a"}, ttl)
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, l.Unlock(t.Context()))
			time.Sleep(100 * time.Millisecond)
		}
		nodes := r.Stats().Nodes
		assert.Less(t, nodes[0].RTT, 5*time.Millisecond)
		assert.InDelta(t, 80*time.Millisecond, nodes[1].RTT, float64(10*time.Millisecond), "40 ms each way")
	})
}

// vanished returns, by node, how often keys have vanished.
func vanished(r *redlock.Redlock) (times []int64) {
	for _, n := range r.Stats().Nodes {
		times = append(times, n.Vanished)
	}
	return times
}

func flush(t *testing.T, c *testcluster.Cluster, nodes ...int) {
	t.Helper()
	for _, i := range nodes {
		require.NoError(t, c.Nodes[i].Flush())
	}
}

// What else is wrong hides no flush of a node with kept locks, and is none.
func TestVanishedKeysOfKeptLocks(t *testing.T) {
	for name, test := range map[string]struct {
		fault func(c *testcluster.Cluster) error
		flush bool
	}{
		"packet loss":                  {func(c *testcluster.Cluster) error { return losePackets(c) }, false},
		"a node is down":               {func(c *testcluster.Cluster) error { return c.Nodes[0].Stop() }, false},
		"a flush":                      {func(*testcluster.Cluster) error { return nil }, true},
		"a flush while a node is down": {func(c *testcluster.Cluster) error { return c.Nodes[0].Stop() }, true},
		"a flush at packet loss":       {func(c *testcluster.Cluster) error { return losePackets(c) }, true},
		"a flush after an outage": {func(c *testcluster.Cluster) error {
			if err := c.Nodes[0].Stop(); err != nil {
				return err
			}
			time.Sleep(time.Minute)
			return c.Nodes[0].Restart(true)
		}, true},
	} {
		runInBubble(t, name, 5, func(t *testing.T, c *testcluster.Cluster) {
			var rec recorder
			r := newRedlock(t, c, redlock.WithHook(rec.Hook))
			held := rounds(20, 5)
			for i := range held {
				tryLock(t, r, []string{fmt.Sprint(i)}, 30*time.Second).KeepAlive(t.Context())
			}
			require.NoError(t, test.fault(c))
			time.Sleep(time.Minute)
			require.Equal(t, make([]int64, 5), vanished(r))
			require.Zero(t, r.Stats().Nodes[1].VanishedAt)
			want, flushed := make([]int64, 5), time.Now()
			if test.flush {
				flush(t, c, 1)
				want[1] = int64(held)
			}
			time.Sleep(time.Minute)
			assert.Equal(t, want, vanished(r))
			assert.Equal(t, held, r.Stats().Kept)
			synctest.Wait()
			told := flushed.Add(-time.Second)
			for _, e := range rec.TakeOf(redlock.EventKeysVanished) {
				assert.Equal(t, c.Nodes[1].Name(), e.Node)
				assert.Contains(t, e.Err.Error(), " so far)")
				assert.GreaterOrEqual(t, e.Time.Sub(told), time.Second, "one a second")
				told = e.Time
			}
			assert.Equal(t, test.flush, told.After(flushed))
			assert.Equal(t, test.flush, r.Stats().Nodes[1].VanishedAt.After(flushed))
		})
	}
}

// A node that has got the keys back can lose them again, before its next yes to an extension.
func TestVanishedKeysAfterARepair(t *testing.T) {
	withRedlock(t, 7, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) { // More than a token has room for.
		l := lockOnAll(t, r, []string{"a"}, time.Minute)
		for i := range int64(3) {
			assert.Equal(t, []int64{0, 0, 0, 0, 0, 0, i}, vanished(r))
			flush(t, c, 6)
			require.NoError(t, l.Extend(t.Context(), time.Minute))
			synctest.Wait()
		}
	})
}

// losePackets has 5 % of all packets be late by the time after which TCP sends one again.
func losePackets(c *testcluster.Cluster) error {
	for _, n := range c.Nodes {
		n.Proxy().Lag(0.05, 200*time.Millisecond)
	}
	return nil
}

// While the machine sleeps, keys expire, and the monotonic clock may stand still.
func TestVanishedKeysAreNoneThatHaveExpiredInASleep(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		sleep := func(d time.Duration, nodes ...int) {
			testkit.WallOffset(r).Add(int64(d))
			for _, i := range nodes {
				require.NoError(t, c.Nodes[i].Flush()) // What keys that have expired look like.
			}
		}
		lock := func(resource string) *redlock.Lock {
			return lockOnAll(t, r, []string{resource}, 10*time.Minute)
		}
		l := lock("a")
		sleep(10*time.Minute, 0, 1, 2)
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrExpired)
		synctest.Wait()
		assert.Equal(t, []int64{0, 0, 0}, vanished(r))

		l = lock("b")
		sleep(time.Minute, 1)
		require.NoError(t, l.Unlock(t.Context()))
		synctest.Wait()
		assert.Equal(t, []int64{0, 1, 0}, vanished(r), "a sleep that is too short for them to expire")

		// It sleeps while the lock request is on its way, and then sends more, with a look at the clocks.
		time.Sleep(2 * time.Second)
		lock("x")
		time.Sleep(950 * time.Millisecond)
		require.NoError(t, c.Nodes[2].Hang())
		l = lock("c")
		time.Sleep(100 * time.Millisecond)
		sleep(9*time.Minute + 59*time.Second)
		lock("d")
		require.NoError(t, c.Nodes[2].Resume())
		synctest.Wait()
		sleep(0, 2)
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrExpired)
		synctest.Wait()
		assert.Equal(t, []int64{0, 1, 0}, vanished(r))

		sleep(time.Hour)
		time.Sleep(2 * time.Second)
		l = lock("e")
		sleep(0, 1)
		require.NoError(t, l.Unlock(t.Context()))
		synctest.Wait()
		assert.Equal(t, []int64{0, 2, 0}, vanished(r), "after the sleep all is as before")
	})
}

// unresponsive returns which nodes count as unavailable though they are up.
func unresponsive(r *redlock.Redlock) (nodes []int) {
	for i, n := range r.Stats().Nodes {
		if n.Unresponsive != nil {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// call has a caller lock and unlock once, and the last vote come in.
func call(t *testing.T, r *redlock.Redlock) error {
	t.Helper()
	l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
	time.Sleep(300 * time.Millisecond)
	if err == nil {
		_ = l.Unlock(t.Context())
	}
	time.Sleep(300 * time.Millisecond)
	return err
}

func TestUnresponsiveNodeIsTold(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newWarm(t, c, redlock.WithHook(rec.Hook))
		rec.TakeAll()
		n := c.Nodes[1]
		for range 2 {
			require.NoError(t, n.Slow(200*time.Millisecond, 200*time.Millisecond))
			start := time.Now()
			for len(unresponsive(r)) == 0 {
				require.NoError(t, call(t, r))
				require.Less(t, time.Since(start), 5*time.Second)
			}
			assert.GreaterOrEqual(t, time.Since(start), 3*time.Second)
			assert.Equal(t, []int{1}, unresponsive(r))
			s := r.Stats().Nodes[1]
			assert.True(t, s.Up)
			require.NoError(t, s.Err)
			require.ErrorIs(t, s.Unresponsive, redlock.ErrNodeTimeout)
			assert.Regexp(t, `^no vote in time for 3\.\d*s \(last: redlock: node timeout\); a request takes (2|3|4)\d\dms$`, s.Unresponsive.Error())
			assert.Contains(t, fmt.Sprint(r), "(node1 up, node2 unresponsive, node3 up)")
			require.NoError(t, call(t, r), "nothing depends on it")

			require.NoError(t, n.Slow(0, 0))
			time.Sleep(time.Second)
			assert.Equal(t, []int{1}, unresponsive(r), "until it has voted in time")
			start = time.Now()
			for len(unresponsive(r)) > 0 {
				require.NoError(t, call(t, r))
				require.Less(t, time.Since(start), 5*time.Second)
			}
			assert.GreaterOrEqual(t, time.Since(start), 3*time.Second)
			var told []string
			for _, e := range rec.TakeAll() {
				if e.Node != "" {
					told = append(told, string(e.Kind)+" "+e.Node)
					assert.Equal(t, e.Kind == redlock.EventNodeUnresponsive, e.Err != nil)
				}
			}
			assert.Equal(t, []string{"node unresponsive node2", "node up node2"}, told)
		}
		var kept []redlock.EventKind
		for _, e := range r.RecentEvents()[3:] {
			kept = append(kept, e.Kind)
		}
		assert.Equal(t, []redlock.EventKind{redlock.EventNodeUnresponsive, redlock.EventNodeUp, redlock.EventNodeUnresponsive, redlock.EventNodeUp}, kept)
	})
}

// Who calls once has an idle connection tell it, and its end. A server that refuses to write answers each PING, so this
// must be a write, and one that leaves nothing.
func TestUnresponsiveNodeOfARareCaller(t *testing.T) {
	for name, test := range map[string]struct {
		begin, end func(n *testcluster.Node) error
	}{
		"slow": {
			func(n *testcluster.Node) error { return n.Slow(200*time.Millisecond, 200*time.Millisecond) },
			func(n *testcluster.Node) error { return n.Slow(0, 0) },
		},
		"out of memory": {
			func(n *testcluster.Node) error {
				return n.SetError("OOM command not allowed when used memory > 'maxmemory'.")
			},
			func(n *testcluster.Node) error { return n.SetError("") },
		},
	} {
		runWithWarm(t, name, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			n := c.Nodes[1]
			pings, probes := countCommands(t, "PING", c.Nodes[0]), countCommands(t, "EVAL", c.Nodes[1])
			require.NoError(t, test.begin(n))
			time.Sleep(5 * time.Minute)
			assert.Empty(t, unresponsive(r), "nothing is known")
			l := tryLock(t, r, []string{"a"}, ttl)
			time.Sleep(ttl) // No Unlock: one vote.
			require.ErrorIs(t, l.Err(), redlock.ErrExpired)
			assert.Equal(t, []int{1}, unresponsive(r))
			time.Sleep(10 * time.Minute)
			assert.Equal(t, []int{1}, unresponsive(r))
			assert.Contains(t, r.Stats().Nodes[1].Unresponsive.Error(), "no vote in time for 10m")
			assert.InDelta(t, 41, probes.Load(), 5, "one in 15 s")
			assert.Greater(t, pings.Load(), int64(30))
			require.NoError(t, test.end(n))
			time.Sleep(31 * time.Second)
			assert.Empty(t, unresponsive(r), "without a call")
			before := probes.Load()
			time.Sleep(5 * time.Minute)
			assert.Equal(t, before, probes.Load(), "a PING will do")
			all, err := n.Keys()
			require.NoError(t, err)
			assert.Empty(t, all)
		})
	}
}
