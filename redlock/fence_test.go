package redlock

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// countersOf returns a resource's counters, -1 for none.
func countersOf(t *testing.T, c *testcluster.Cluster, resource string) []int64 {
	t.Helper()
	all := make([]int64, len(c.Nodes))
	for i, n := range c.Nodes {
		text, ok, err := n.Get(CounterKey(resource))
		require.NoError(t, err)
		all[i] = -1
		if ok {
			all[i], err = strconv.ParseInt(text, 10, 64)
			require.NoError(t, err)
		}
	}
	return all
}

// setCounters sets a resource's counters, so far that no proposal reaches them.
func setCounters(t *testing.T, c *testcluster.Cluster, resource string, values ...int64) {
	t.Helper()
	for i, n := range c.Nodes {
		require.NoError(t, n.Set(CounterKey(resource), strconv.FormatInt(values[i], 10), time.Hour))
	}
}

// ahead is a counter that is ahead of all clocks.
func ahead() int64 { return time.Now().Add(24 * time.Hour).UnixMicro() }

// onScript has fn called before a node runs a script whose arguments include mark.
func onScript(t *testing.T, n *testcluster.Node, mark string, fn func()) {
	t.Helper()
	require.NoError(t, n.OnCommand(func(cmd string, args []string) {
		if strings.HasPrefix(cmd, "EVAL") && strings.Contains(strings.Join(args, " "), mark) {
			fn()
		}
	}))
}

// takeAway deletes x, on any goroutine.
func takeAway(t *testing.T, n *testcluster.Node) {
	t.Helper()
	if err := n.Del("x"); err != nil {
		t.Error(err)
	}
}

func raiseMark() string { return RaiseScript.Hash.(string) }

func TestFenceOf(t *testing.T) {
	for _, tc := range []struct {
		fences         []int64
		fence          int64
		exact, granted int
	}{
		{nil, 0, 0, 0},
		{[]int64{0, 0, 0}, 0, 0, 0},
		{[]int64{7, 7, 7}, 7, 3, 3},
		{[]int64{0, 7, 7}, 7, 2, 2},
		{[]int64{8, 7, 8, 0, 1}, 8, 2, 4},
		{[]int64{7, 9, 7}, 7, 2, 3}, // A quorum has said 7: it need not be the largest.
		{[]int64{9, 7, 7, 8, 0}, 7, 2, 4},
		{[]int64{MaxFence, 1, 0}, MaxFence, 1, 2},
	} {
		fence, exact, granted := fenceOf(tc.fences, 2)
		assert.Equal(t, tc.fence, fence, tc.fences)
		assert.Equal(t, tc.exact, exact, tc.fences)
		assert.Equal(t, tc.granted, granted, tc.fences)
	}
	assert.True(t, counts(5, 0), "a grant")
	assert.True(t, counts(5, 5))
	assert.False(t, counts(6, 5), "another lock may have 6")
	assert.False(t, counts(4, 5))
}

func TestFencesGrow(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithFencing())
		last := int64(0)
		for range 5 {
			l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
			require.NoError(t, err)
			assert.Greater(t, l.Fence(), last)
			last = l.Fence()
			synctest.Wait() // All nodes are connected.
			require.NoError(t, l.Extend(t.Context(), ttl))
			assert.Equal(t, last, l.Fence())
			require.NoError(t, l.Unlock(t.Context()))
			assert.Equal(t, last, l.Fence())
		}
		assert.Zero(t, r.Stats().Raised)
		l, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		assert.Zero(t, l.Fence())
		_, err = r.TryLock(t.Context(), []string{"x"}, ttl)
		require.ErrorIs(t, err, ErrTaken, "by one without a fence")
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, r.Do(t.Context(), []string{"x"}, ttl, func(_ context.Context, l *Lock) error {
			assert.Greater(t, l.Fence(), last)
			return nil
		}))
	})
}

// The fast path must not need equal clocks: one client is always 200 ms ahead.
func TestFencesTakeOneRoundTripWhateverTheClocks(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		a, b, wrong := newRedlock(t, c, WithFencing()), newRedlock(t, c, WithFencing()), newRedlock(t, c, WithFencing())
		WallOffset(b).Store(int64(200 * time.Millisecond))
		WallOffset(wrong).Store(int64(200 * 365 * 24 * time.Hour)) // Its proposals are ignored.
		late := newRedlock(t, c, WithFencing())
		WallOffset(late).Store(int64(-time.Hour))
		last := int64(0)
		for range 5 {
			for _, r := range []*Redlock{a, b, late, b, wrong, a} {
				l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
				require.NoError(t, err)
				assert.Greater(t, l.Fence(), last)
				assert.Less(t, l.Fence(), time.Now().Add(time.Second).UnixMicro())
				last = l.Fence()
				synctest.Wait()
				assert.Equal(t, []int64{last, last, last, last, last}, countersOf(t, c, "x"))
				require.NoError(t, l.Unlock(t.Context()))
				synctest.Wait()
			}
		}
		for _, r := range []*Redlock{a, b, wrong, late} {
			assert.Zero(t, r.Stats().Raised)
		}
	})
}

// Where a counter is missing, it may have been there. What stands in for it is a clock, but
// none that is more than a second off the node's: neither ahead nor behind.
func TestTheNodesClockStandsInForACounter(t *testing.T) {
	for off, own := range map[time.Duration]bool{
		-time.Hour: false, -1100 * time.Millisecond: false, -900 * time.Millisecond: true, 0: true,
		900 * time.Millisecond: true, 1100 * time.Millisecond: false, 1000 * time.Hour: false,
	} {
		for _, resources := range [][]string{{"x"}, {"x", "y"}} {
			for _, opts := range [][]Option{{WithRetryCount(0)}, nil} {
				inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
					time.Sleep(300 * time.Millisecond) // Not at the beginning of a second.
					r := newRedlock(t, c, WithFencing())
					WallOffset(r).Store(int64(off))
					setCounters(t, c, "y", 7, 7, 7)
					want := time.Now().Add(off)
					if !own {
						want = time.Now().Truncate(time.Second)
					}
					l, err := r.Lock(t.Context(), resources, ttl, opts...)
					require.NoError(t, err)
					assert.Equal(t, want.UnixMicro(), l.Fence(), off)
					assert.Zero(t, r.Stats().Raised)
				})
			}
		}
	}
}

func TestDifferentCountersAreRaised(t *testing.T) {
	for _, given := range [][]int64{{5, 0, 3}, {1, 2, 3}, {3, 3, 9}, {0, 0, 0}, {9, 2, 2}} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c, WithFencing())
			base := ahead()
			setCounters(t, c, "x", base+given[0], base+given[1], base+given[2])
			l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
			require.NoError(t, err)
			exact := 0
			for _, counter := range countersOf(t, c, "x") {
				if counter == l.Fence() {
					exact++
				}
			}
			assert.GreaterOrEqual(t, exact, 2)
			second := l.Fence()
			require.NoError(t, l.Unlock(t.Context()))
			l, err = r.TryLock(t.Context(), []string{"x"}, ttl)
			require.NoError(t, err)
			assert.Greater(t, l.Fence(), second)
		})
	}
}

// A raise that finds another's key, or none, does not count, and the lock is not got.
func TestARaiseNeedsTheToken(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithFencing())
		base := ahead()
		setCounters(t, c, "x", base, base, base+10)
		require.NoError(t, c.Nodes[0].Set("x", "another", time.Hour))
		onScript(t, c.Nodes[1], raiseMark(), func() { takeAway(t, c.Nodes[1]) })
		_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.ErrorIs(t, err, ErrTaken)
		var qe *QuorumError
		require.ErrorAs(t, err, &qe)
		assert.Equal(t, OpLock, qe.Op)
		require.NoError(t, qe.Votes[2].Err)
		synctest.Wait()
		for _, n := range c.Nodes[1:] {
			assert.Empty(t, keys(t, n))
		}
		assert.Equal(t, base+1, countersOf(t, c, "x")[1], "was not raised")
		assert.EqualValues(t, 1, r.Stats().Raised)
	})
}

// One node loses the key while it is asked to raise; another one has granted it late,
// with the right counter or with one that has to be raised.
func TestALateGrantStandsInForOneThatWasLost(t *testing.T) {
	for _, third := range []int64{0, 10, 3, 20} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c, WithFencing())
			base := ahead()
			setCounters(t, c, "x", base, base+10, base+third)
			var late atomic.Bool
			onScript(t, c.Nodes[2], FencedLockScript.Hash.(string), func() {
				late.Store(true)
				time.Sleep(10 * time.Millisecond)
			})
			onScript(t, c.Nodes[0], raiseMark(), func() {
				takeAway(t, c.Nodes[0])
				time.Sleep(20 * time.Millisecond)
			})
			l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
			require.NoError(t, err)
			assert.True(t, late.Load())
			synctest.Wait()
			got := countersOf(t, c, "x")
			assert.Equal(t, []int64{l.Fence(), l.Fence()}, got[1:], third)
			assert.GreaterOrEqual(t, l.Fence(), base+11)
		})
	}
}

// A raise waits for a silent node no longer than the node timeout, and a cancelled
// context ends it at once; nothing is left then.
func TestARaiseEnds(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithFencing())
		base := ahead()
		setCounters(t, c, "x", base, base+10, base+20)
		for _, n := range c.Nodes {
			onScript(t, n, raiseMark(), func() { time.Sleep(300 * time.Millisecond) })
		}
		start := time.Now()
		_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.ErrorIs(t, err, ErrNoQuorum)
		assert.Equal(t, DefaultNodeTimeout, time.Since(start))
		time.Sleep(time.Second)
		for _, n := range c.Nodes {
			assert.Empty(t, keys(t, n))
		}

		setCounters(t, c, "x", base, base+20, base+10)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		start = time.Now()
		_, err = r.TryLock(ctx, []string{"x"}, ttl)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 10*time.Millisecond, time.Since(start))
		time.Sleep(time.Second)
		for _, n := range c.Nodes {
			assert.Empty(t, keys(t, n))
		}
	})
}

func TestOneFenceServesAllResources(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithFencing())
		base := ahead()
		setCounters(t, c, "x", base, base, base)
		setCounters(t, c, "y", base+5, base+2, base+9)
		l, err := r.TryLock(t.Context(), []string{"y", "x", "z"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
		for _, res := range []string{"x", "y", "z"} {
			assert.Subset(t, countersOf(t, c, res), []int64{l.Fence()}, res)
		}
		both := l.Fence()
		require.NoError(t, l.Unlock(t.Context()))
		for _, res := range []string{"z", "y", "x"} {
			l, err = r.TryLock(t.Context(), []string{res}, ttl)
			require.NoError(t, err)
			assert.Greater(t, l.Fence(), both, res)
		}
	})
}

func TestWaitersGetFences(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c, WithFencing()), newRedlock(t, c)
		held, err := a.TryLock(t.Context(), []string{"x", "y"}, ttl)
		require.NoError(t, err)
		first := startLock(t, b, t.Context(), []string{"x", "y"}, append(slowly(), WithFencing())...)
		second := startLock(t, b, t.Context(), []string{"x"}, append(slowly(), WithFencing())...)
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		l := first.got(t)
		assert.Less(t, first.at.Sub(released), 50*time.Millisecond)
		assert.Greater(t, l.Fence(), held.Fence())
		require.NoError(t, l.Unlock(t.Context()))
		assert.Greater(t, second.got(t).Fence(), l.Fence())
	})
}

func TestCountersOutliveTheLock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		const life = time.Minute
		r := newRedlock(t, c, WithFencing(), WithFenceLife(life))
		l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
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

func TestRepairsAndExtensionsRestoreCounters(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithFencing())
		l, err := r.TryLock(t.Context(), []string{"x", "y"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.Nodes[0].Flush())
		require.NoError(t, c.Nodes[1].Del(CounterKey("y")))
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

func TestACounterThatIsNoneOrAtItsEndGrantsNothing(t *testing.T) {
	for _, value := range []string{"9007199254740991", "9007199254740992", "1e300", "nan", "x", ""} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c, WithFencing())
			for _, n := range c.Nodes[:2] {
				require.NoError(t, n.Set(CounterKey("x"), value, time.Hour))
			}
			_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
			require.ErrorIs(t, err, ErrNoQuorum, value)
			var qe *QuorumError
			require.ErrorAs(t, err, &qe)
			require.ErrorContains(t, qe.Votes[0].Err, "NOFENCE")
			synctest.Wait()
			for _, n := range c.Nodes {
				assert.Empty(t, keys(t, n))
			}
		})
	}
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithFencing())
		setCounters(t, c, "x", MaxFence-1, MaxFence-1, MaxFence-1)
		l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		assert.EqualValues(t, MaxFence, l.Fence(), "the last one")
	})
}

func TestFencingChecksItsOptions(t *testing.T) {
	nodes := forbiddenNodes(t, 1)
	_, err := New(nodes, WithFenceLife(0))
	require.ErrorContains(t, err, "fence life 0s")
	r, err := New(nodes, WithFencing(), WithFenceLife(time.Minute))
	require.NoError(t, err)
	_, err = r.TryLock(t.Context(), []string{"x"}, time.Minute+1)
	require.ErrorContains(t, err, "ttl 1m0.000000001s: must not exceed the fence life 1m0s")
	_, err = r.Lock(t.Context(), []string{"x"}, time.Second, WithFenceLife(-time.Second))
	require.ErrorContains(t, err, "fence life -1s")
	require.NoError(t, r.Close(t.Context()))
}
