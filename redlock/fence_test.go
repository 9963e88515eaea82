package redlock_test

import (
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

func TestFencesGrow(t *testing.T) {
	withFences(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		last := int64(0)
		for range 5 {
			l := tryLock(t, r, []string{"x"}, ttl)
			assert.Greater(t, l.Fence(), last)
			last = l.Fence()
			synctest.Wait() // All nodes are connected.
			require.NoError(t, l.Extend(t.Context(), ttl))
			assert.Equal(t, last, l.Fence())
			require.NoError(t, l.Unlock(t.Context()))
			assert.Equal(t, last, l.Fence())
		}
		assert.Zero(t, r.Stats().Raised)
		l := lockElsewhere(t, c, "x", ttl)
		assert.Zero(t, l.Fence())
		refused(t, redlock.ErrTaken, r, []string{"x"}, ttl)
	})
}

// The fast path must not need equal clocks: one client is always 200 ms ahead.
func TestFencesTakeOneRoundTripWhateverTheClocks(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		a, b, wrong := newRedlock(t, c, redlock.WithFencing()), newRedlock(t, c, redlock.WithFencing()), newRedlock(t, c, redlock.WithFencing())
		testkit.WallOffset(b).Store(int64(200 * time.Millisecond))
		testkit.WallOffset(wrong).Store(int64(200 * 365 * 24 * time.Hour)) // Its proposals are ignored.
		late := newRedlock(t, c, redlock.WithFencing())
		testkit.WallOffset(late).Store(int64(-time.Hour))
		last := int64(0)
		for range 5 {
			for _, r := range []*redlock.Redlock{a, b, late, b, wrong, a} {
				l := tryLock(t, r, []string{"x"}, ttl)
				assert.Greater(t, l.Fence(), last)
				assert.Less(t, l.Fence(), time.Now().Add(time.Second).UnixMicro())
				last = l.Fence()
				synctest.Wait()
				require.NoError(t, l.Unlock(t.Context()))
				synctest.Wait()
			}
		}
		for _, r := range []*redlock.Redlock{a, b, wrong, late} {
			assert.Zero(t, r.Stats().Raised)
		}
	})
}

// Where a counter is missing, it may have been there. What stands in for it is a clock, but
// none that is more than a second off the node's: neither ahead nor behind.
func TestFenceFromTheNodesClockStandsInForACounter(t *testing.T) {
	for off, own := range map[time.Duration]bool{
		-time.Hour: false, -1100 * time.Millisecond: false, -900 * time.Millisecond: true, 0: true,
		900 * time.Millisecond: true, 1100 * time.Millisecond: false, 1000 * time.Hour: false,
	} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			time.Sleep(300 * time.Millisecond) // Not at the beginning of a second.
			r := newRedlock(t, c, redlock.WithFencing())
			testkit.WallOffset(r).Store(int64(off))
			setCounters(t, c, "y", 7, 7, 7)
			want := time.Now().Add(off)
			if !own {
				want = time.Now().Truncate(time.Second)
			}
			assert.Equal(t, want.UnixMicro(), tryLock(t, r, []string{"x", "y"}, ttl).Fence(), off)
			assert.Zero(t, r.Stats().Raised)
		})
	}
}

func TestFenceServesAllResources(t *testing.T) {
	withFences(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		base := countAhead(t, c, 0, 0, 0)
		setCounters(t, c, "y", base+5, base+2, base+9)
		l := lockOnAll(t, r, []string{"y", "x", "z"}, ttl)
		for _, res := range []string{"x", "y", "z"} {
			assert.Subset(t, countersOf(t, c, res), []int64{l.Fence()}, res)
		}
		both := l.Fence()
		assert.Greater(t, both, base+5, "above what a quorum had for each of them")
		require.NoError(t, l.Unlock(t.Context()))
		for _, res := range []string{"z", "y", "x"} {
			l = tryLock(t, r, []string{res}, ttl)
			assert.Greater(t, l.Fence(), both, res)
		}
	})
}

// countersOf returns a resource's counters, -1 for none.
func countersOf(t *testing.T, c *testcluster.Cluster, resource string) []int64 {
	t.Helper()
	all := make([]int64, len(c.Nodes))
	for i, n := range c.Nodes {
		text, ok, err := n.Get(testkit.CounterKey(resource))
		require.NoError(t, err)
		all[i] = -1
		if ok {
			all[i], err = strconv.ParseInt(text, 10, 64)
			require.NoError(t, err)
		}
	}
	return all
}

// setCounters sets a resource's counters.
func setCounters(t *testing.T, c *testcluster.Cluster, resource string, values ...int64) {
	t.Helper()
	for i, n := range c.Nodes {
		require.NoError(t, n.Set(testkit.CounterKey(resource), strconv.FormatInt(values[i], 10), time.Hour))
	}
}

// countAhead sets the counters of x to so much more than base, which is ahead of all clocks.
func countAhead(t *testing.T, c *testcluster.Cluster, more ...int64) (base int64) {
	t.Helper()
	base = time.Now().Add(24 * time.Hour).UnixMicro()
	for i := range more {
		more[i] += base
	}
	setCounters(t, c, "x", more...)
	return base
}

// withFences is withRedlock on three nodes, with fences.
func withFences(t *testing.T, fn func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock)) {
	t.Helper()
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) { fn(t, c, newRedlock(t, c, redlock.WithFencing())) })
}

func TestFenceCountersOutliveTheLock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		const life = time.Minute
		r := newRedlock(t, c, redlock.WithFencing(), redlock.WithFenceLife(life))
		l := tryLock(t, r, []string{"x"}, ttl)
		kept := l.KeepAlive(t.Context())
		time.Sleep(10 * life)
		require.NoError(t, kept.Err())
		assert.Equal(t, []int64{l.Fence(), l.Fence(), l.Fence()}, countersOf(t, c, "x"), "extensions keep them")
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(life - ttl)
		assert.Equal(t, []int64{l.Fence(), l.Fence(), l.Fence()}, countersOf(t, c, "x"))
		time.Sleep(ttl)
		assert.Equal(t, []int64{-1, -1, -1}, countersOf(t, c, "x"))
	})
}

func TestFenceCountersAreRestoredByRepairsAndExtensions(t *testing.T) {
	withFences(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockOnAll(t, r, []string{"x", "y"}, ttl)
		require.NoError(t, c.Nodes[0].Flush())
		require.NoError(t, c.Nodes[1].Del(testkit.CounterKey("y")))
		require.NoError(t, l.Extend(t.Context(), ttl))
		time.Sleep(time.Second)
		for _, res := range []string{"x", "y"} {
			assert.Equal(t, []int64{l.Fence(), l.Fence(), l.Fence()}, countersOf(t, c, res))
		}
		assert.Len(t, keys(t, c.Nodes[0]), 2)
		assert.EqualValues(t, 1, r.Stats().Repaired)

		setCounters(t, c, "x", l.Fence()+1, l.Fence()+1, l.Fence()+1) // Of no use, but not lowered.
		require.NoError(t, l.Extend(t.Context(), ttl))
		assert.Equal(t, []int64{l.Fence() + 1, l.Fence() + 1, l.Fence() + 1}, countersOf(t, c, "x"))
	})
}

func TestFenceCounterThatIsNoneOrAtItsEndGrantsNothing(t *testing.T) {
	for _, value := range []string{"9007199254740991", "9007199254740992", "1e300", "nan", "x", ""} {
		withFences(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			require.NoError(t, c.First(2).Set(testkit.CounterKey("x"), value, time.Hour))
			_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
			require.ErrorIs(t, err, redlock.ErrNoQuorum, value)
			require.ErrorContains(t, votesOf(t, err)[0].Err, "NOFENCE")
			synctest.Wait()
			requireNoKeys(t, c)
		})
	}
	withFences(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		setCounters(t, c, "x", fences.Max-1, fences.Max-1, fences.Max-1)
		assert.EqualValues(t, fences.Max, tryLock(t, r, []string{"x"}, ttl).Fence(), "the last one")
	})
}

// onRaise has fn called before a node raises a counter.
func onRaise(t *testing.T, n *testcluster.Node, fn func()) {
	t.Helper()
	require.NoError(t, n.OnCommand(func(_ string, args []string) {
		if slices.Contains(args, redlock.RaiseScript.Hash.(string)) {
			fn()
		}
	}))
}

// A raise that finds another's key, or none, does not count, and the lock is not got.
func TestFenceRaiseNeedsTheToken(t *testing.T) {
	withFences(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		base := countAhead(t, c, 0, 0, 10)
		require.NoError(t, c.Nodes[0].Set("x", "another", time.Hour))
		onRaise(t, c.Nodes[1], func() { assert.NoError(t, c.Nodes[1].Del("x")) })
		err := refusal(t, redlock.ErrTaken, r, []string{"x"}, ttl)
		qe := quorumError(t, err)
		assert.Equal(t, redlock.OpLock, qe.Op)
		require.NoError(t, qe.Votes[2].Err)
		require.ErrorIs(t, qe.Votes[1].Err, redlock.ErrTaken)
		assert.Equal(t, "node2: the lock or its fence was passed by another's", qe.Votes[1].String(), "it is reserved for nobody")
		synctest.Wait()
		assert.Empty(t, keys(t, c.Nodes[1]))
		assert.Empty(t, keys(t, c.Nodes[2]))
		assert.Equal(t, base+1, countersOf(t, c, "x")[1], "was not raised")
		assert.EqualValues(t, 1, r.Stats().Raised)
	})
}

// A raise waits for a silent node no longer than the node timeout, and nothing is left then.
func TestFenceRaiseEnds(t *testing.T) {
	withFences(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		countAhead(t, c, 0, 10, 20)
		for _, n := range c.Nodes {
			onRaise(t, n, func() {
				busy, _, _ := redlock.Admission(r).Stats()
				assert.Zero(t, busy, "a quorum has answered: others may ask")
				time.Sleep(300 * time.Millisecond)
			})
		}
		start := time.Now()
		refused(t, redlock.ErrNoQuorum, r, []string{"x"}, ttl)
		assert.Equal(t, redlock.DefaultNodeTimeout, time.Since(start))
		time.Sleep(time.Second)
		requireNoKeys(t, c)
	})
}

func TestGuardRefusesEarlierHolders(t *testing.T) {
	var g redlock.Guard
	ran := 0
	write := func() error { ran++; return nil }
	require.NoError(t, g.Do(7, write))
	require.NoError(t, g.Do(7, write), "a holder comes more than once")
	require.NoError(t, g.Do(9, write))
	require.ErrorIs(t, g.Do(8, write), redlock.ErrFenced)
	require.NotErrorIs(t, g.Do(0, write), redlock.ErrFenced)
	assert.Equal(t, 3, ran)
	assert.EqualValues(t, 9, g.Seen())

	require.ErrorIs(t, g.Do(10, func() error { return assert.AnError }), assert.AnError)
	assert.Panics(t, func() { _ = g.Do(11, func() error { panic("x") }) })
	require.ErrorIs(t, g.Do(10, write), redlock.ErrFenced, "the later holder was there")
	require.ErrorIs(t, redlock.NewGuard(5).Do(4, write), redlock.ErrFenced)
}

func TestGuardLetsNothingOverlap(t *testing.T) {
	var g redlock.Guard
	var wg sync.WaitGroup
	inside := 0
	for range 5000 {
		wg.Go(func() {
			_ = g.Do(1, func() error {
				inside++ // The race detector sees it if two get in.
				runtime.Gosched()
				assert.Equal(t, 1, inside)
				inside--
				return nil
			})
		})
	}
	wg.Wait()
}
