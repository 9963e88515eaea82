package redlock_test

import (
	"context"
	"encoding/json"
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

func TestStatsShowWaiting(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newRedlock(t, c, redlock.WithHook(rec.Hook))
		held := lockElsewhere(t, c, "x", time.Hour)
		first := startLock(t, r, []string{"x"}, every(time.Second, -1)...)
		second := startLock(t, r, []string{"x"}, every(time.Second, -1)...)
		assert.Equal(t, 2, r.Stats().Waiting)
		events := rec.TakeOf(redlock.EventWaiting)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, first.got(t).Unlock(t.Context()))
		require.NoError(t, second.got(t).Unlock(t.Context()))
		require.Len(t, events, 3)
		require.ErrorIs(t, events[1].Err, redlock.ErrTaken, "of a look as it listens")
		assert.Equal(t, []int{1, 1, 2}, []int{events[0].Position, events[1].Position, events[2].Position})
		assert.Equal(t, []int{1, 1, 0}, []int{events[0].Attempt, events[1].Attempt, events[2].Attempt})
	})
}

func TestStatsMarshalToJSON(t *testing.T) {
	down := fmt.Errorf("not connected: %w", assert.AnError)
	b, err := json.Marshal([]redlock.NodeStats{{Node: "n", Abstains: redlock.ErrQuarantined, Err: down}, {}})
	require.NoError(t, err)
	var back []struct{ Node, Err, Abstains string }
	require.NoError(t, json.Unmarshal(b, &back))
	assert.Equal(t, "n", back[0].Node)
	assert.Equal(t, redlock.ErrQuarantined.Error(), back[0].Abstains)
	assert.Equal(t, down.Error(), back[0].Err)
	assert.Empty(t, back[1].Err)
}

func TestStatsListHeldLocks(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithOwner("me"))
		kept := waitLock(t, r, []string{"b", "a"}, 9*time.Second, redlock.WithFencing())
		kept.KeepAlive(t.Context())
		time.Sleep(time.Second)
		waitLock(t, r, []string{"c"}, 4*time.Second, redlock.WithOwner(""))
		require.NoError(t, waitLock(t, r, []string{"d"}, ttl).Unlock(t.Context()))
		s := r.Stats()
		assert.Equal(t, []int64{3, 1, 2}, []int64{s.Acquired, s.Unlocked, int64(s.Held)})

		locks := r.HeldLocks()
		require.Len(t, locks, 2, "the released one is gone")
		assert.Equal(t, redlock.HeldLock{
			Resources: []string{"a", "b"}, Since: redlock.StartOf(kept), Extended: redlock.StartOf(kept), Until: kept.Until(), Fence: kept.Fence(),
			Owner: "me", Holder: kept.Holder(), Kept: true,
		}, locks[0])
		assert.Equal(t, []string{"c"}, locks[1].Resources)
		assert.False(t, locks[1].Kept)
		locks[0].Resources[0] = "mine to change"
		assert.Equal(t, []string{"a", "b"}, r.HeldLocks()[0].Resources)

		time.Sleep(5 * time.Second) // The plain one has ended; the kept one was extended.
		synctest.Wait()
		locks = r.HeldLocks()
		require.Len(t, locks, 1)
		assert.True(t, locks[0].Extended.After(locks[0].Since))
		assert.Equal(t, kept.Until(), locks[0].Until)
		require.NoError(t, kept.Unlock(t.Context()))

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

// Who waits, since when, and since when somebody has the lock, as long as one call knows of that one.
func TestStatsListWaitingCalls(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, every(5*time.Second, -1)...)
		held := tryLock(t, newRedlock(t, c, redlock.WithOwner("them")), []string{"x"}, 24*time.Hour)
		began := time.Now()
		first := startLock(t, r, []string{"x", "w"}, redlock.WithOwner("first"))
		time.Sleep(time.Minute)
		next := time.Now()
		second := startLock(t, r, []string{"x"})
		polls := startLock(t, r, []string{"x"}, redlock.WithPolling())
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		assert.Equal(t, time.Since(began), r.Stats().OldestWait)
		calls := r.WaitingCalls()
		require.Len(t, calls, 3)
		assert.Equal(t, redlock.WaitingCall{
			Resources: []string{"w", "x"}, Owner: "first", Since: began, Position: 1, Attempts: 61,
			Err: redlock.ErrTaken, Holder: held.Holder(), HolderOwner: "them", HolderSince: began,
		}, calls[0])
		assert.Equal(t, []int{2, 0}, []int{calls[1].Position, calls[2].Position}, "one polls")
		for _, call := range calls[1:] { // One has asked nobody since, but the call ahead of it has.
			assert.Equal(t, held.Holder(), call.Holder)
			assert.Equal(t, began, call.HolderSince)
		}
		require.NoError(t, c.First(2).Stop())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for _, call := range r.WaitingCalls() {
			require.Equal(t, redlock.ErrNoQuorum, call.Err)
			assert.Equal(t, call.Holder == "", call.HolderSince.IsZero(), "without a quorum")
		}
		require.NoError(t, c.First(2).Restart(true))
		time.Sleep(10 * time.Second)
		for _, call := range r.WaitingCalls() {
			require.Equal(t, redlock.ErrTaken, call.Err, "also behind another one, which asks")
		}
		first.leaves()
		synctest.Wait()
		assert.Equal(t, time.Since(next), r.Stats().OldestWait)
		time.Sleep(2 * time.Second) // Between two looks of the one that polls.

		// The next holder is of this process.
		require.NoError(t, held.Unlock(t.Context()))
		lock := second.got(t)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		calls = r.WaitingCalls()
		require.Len(t, calls, 1)
		assert.Equal(t, lock.Holder(), calls[0].Holder)
		assert.Equal(t, redlock.StartOf(lock), calls[0].HolderSince)
		require.NoError(t, lock.Unlock(t.Context()))
		require.NoError(t, polls.got(t).Unlock(t.Context()))
		assert.Zero(t, r.Stats().OldestWait)
		assert.Empty(t, r.WaitingCalls())
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

// What else is wrong hides no flush of a node with kept locks, and is none.
func TestVanishedKeysOfKeptLocks(t *testing.T) {
	for name, test := range map[string]struct {
		fault func(c *testcluster.Cluster) error
		flush bool
	}{
		"packet loss":                  {losePackets, false},
		"a flush while a node is down": {func(c *testcluster.Cluster) error { return c.Nodes[0].Stop() }, true},
		"a flush at packet loss":       {losePackets, true},
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
				require.NoError(t, c.Nodes[1].Flush())
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
			require.NoError(t, c.Nodes[6].Flush())
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
		release := func(l *redlock.Lock, is error, want ...int64) {
			t.Helper()
			require.ErrorIs(t, l.Unlock(t.Context()), is)
			synctest.Wait()
			assert.Equal(t, want, vanished(r))
		}
		l := lock("a")
		sleep(10*time.Minute, 0, 1, 2)
		release(l, redlock.ErrExpired, 0, 0, 0)

		l = lock("b")
		sleep(time.Minute, 1) // It is too short for them to expire.
		release(l, nil, 0, 1, 0)

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
		release(l, redlock.ErrExpired, 0, 1, 0)

		sleep(time.Hour)
		time.Sleep(2 * time.Second)
		l = lock("e")
		sleep(0, 1)
		release(l, nil, 0, 2, 0)
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
