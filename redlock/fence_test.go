package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/testkit"
	"github.com/seed6c881748/redlock/redlock"
)

func TestFencesGrow(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithFencing())
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
		l := lockElsewhere(t, c, "x", ttl)
		assert.Zero(t, l.Fence())
		_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.ErrorIs(t, err, redlock.ErrTaken, "by one without a fence")
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, r.Do(t.Context(), []string{"x"}, ttl, func(_ context.Context, l *redlock.Lock) error {
			assert.Greater(t, l.Fence(), last)
			return nil
		}))
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
		for _, resources := range [][]string{{"x"}, {"x", "y"}} {
			for _, opts := range [][]redlock.Option{{redlock.WithRetryCount(0)}, nil} {
				inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
					time.Sleep(300 * time.Millisecond) // Not at the beginning of a second.
					r := newRedlock(t, c, redlock.WithFencing())
					testkit.WallOffset(r).Store(int64(off))
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

func TestFenceServesAllResources(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithFencing())
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

func TestFencesAreGivenToWaiters(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c, redlock.WithFencing()), newRedlock(t, c)
		held, err := a.TryLock(t.Context(), []string{"x", "y"}, ttl)
		require.NoError(t, err)
		first := startLock(t, b, t.Context(), []string{"x", "y"}, append(slowly(), redlock.WithFencing())...)
		second := startLock(t, b, t.Context(), []string{"x"}, append(slowly(), redlock.WithFencing())...)
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		l := first.got(t)
		assert.Less(t, first.at.Sub(released), 50*time.Millisecond)
		assert.Greater(t, l.Fence(), held.Fence())
		require.NoError(t, l.Unlock(t.Context()))
		assert.Greater(t, second.got(t).Fence(), l.Fence())
	})
}

func TestFenceOptionsAreChecked(t *testing.T) {
	nodes := forbiddenNodes(t, 1)
	_, err := redlock.New(nodes, redlock.WithFenceLife(0))
	require.ErrorContains(t, err, "fence life 0s")
	r, err := redlock.New(nodes, redlock.WithFencing(), redlock.WithFenceLife(time.Minute))
	require.NoError(t, err)
	_, err = r.TryLock(t.Context(), []string{"x"}, time.Minute+1)
	require.ErrorContains(t, err, "ttl 1m0.000000001s: must not exceed the fence life 1m0s")
	_, err = r.Lock(t.Context(), []string{"x"}, time.Second, redlock.WithFenceLife(-time.Second))
	require.ErrorContains(t, err, "fence life -1s")
	require.NoError(t, r.Close(t.Context()))
}

// What stands in for a counter that is lost is a clock, also where the client's is too
// far ahead to be believed.
func TestFenceFromAClockStandsInForALostCounter(t *testing.T) {
	for what, lose := range map[string]func(c *testcluster.Cluster) error{
		"expired": func(*testcluster.Cluster) error { return nil },
		"one node's data": func(c *testcluster.Cluster) error {
			if err := c.Nodes[0].Flush(); err != nil {
				return err
			}
			return c.Nodes[1].Stop()
		},
	} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			a := newRedlock(t, c, redlock.WithFencing(), redlock.WithFenceLife(time.Minute))
			b := newRedlock(t, c, redlock.WithFencing(), redlock.WithFenceLife(time.Minute))
			testkit.WallOffset(b).Store(int64(2 * time.Second))
			l, err := a.TryLock(t.Context(), []string{"x"}, ttl)
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
			synctest.Wait()
			require.NoError(t, lose(c))
			time.Sleep(time.Hour)
			m, err := b.TryLock(t.Context(), []string{"x"}, ttl)
			require.NoError(t, err)
			assert.Greater(t, m.Fence(), l.Fence(), what)
			assert.Less(t, m.Fence(), time.Now().Add(2*time.Second).UnixMicro(), what)
		})
	}
}

// A clock behind the end of the counters proposes nothing.
func TestFenceProposalBeyondTheEndIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(260 * 365 * 24 * time.Hour)
		c := testcluster.RunBubble(t, 3)
		r := newRedlock(t, c, redlock.WithFencing())
		setCounters(t, c, "x", 5, 5, 5)
		l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		assert.EqualValues(t, 6, l.Fence())
	})
}
