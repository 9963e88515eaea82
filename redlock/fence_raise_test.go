package redlock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func raiseMark() string { return redlock.RaiseScript.Hash.(string) }

// takeAway deletes x, on any goroutine.
func takeAway(t *testing.T, n *testcluster.Node) {
	t.Helper()
	if err := n.Del("x"); err != nil {
		t.Error(err)
	}
}

func TestFenceCountersThatDifferAreRaised(t *testing.T) {
	for _, given := range [][]int64{{5, 0, 3}, {1, 2, 3}, {3, 3, 9}, {0, 0, 0}, {9, 2, 2}} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c, redlock.WithFencing())
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
func TestFenceRaiseNeedsTheToken(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithFencing())
		base := ahead()
		setCounters(t, c, "x", base, base, base+10)
		require.NoError(t, c.Nodes[0].Set("x", "another", time.Hour))
		onScript(t, c.Nodes[1], raiseMark(), func() { takeAway(t, c.Nodes[1]) })
		_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.ErrorIs(t, err, redlock.ErrTaken)
		var qe *redlock.QuorumError
		require.ErrorAs(t, err, &qe)
		assert.Equal(t, redlock.OpLock, qe.Op)
		require.NoError(t, qe.Votes[2].Err)
		require.ErrorIs(t, qe.Votes[1].Err, redlock.ErrTaken)
		assert.Equal(t, "node2: the lock or its fence was passed by another's", qe.Votes[1].String(), "it is reserved for nobody")
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
func TestFenceGrantThatIsLateStandsInForOneThatWasLost(t *testing.T) {
	for _, third := range []int64{0, 10, 3, 20} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c, redlock.WithFencing())
			base := ahead()
			setCounters(t, c, "x", base, base+10, base+third)
			var late atomic.Bool
			onScript(t, c.Nodes[2], redlock.FencedLockScript.Hash.(string), func() {
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

// A raise is on its way to a node when the fence has become a larger one. What the node answers
// is a grant that came late: it is raised once more, and counts.
func TestFenceRaiseIsRepeatedWhenTheFenceHasGrown(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithFencing())
		warm(t, r)
		base := ahead()
		setCounters(t, c, "x", base, base, base+10, base+20, base+30)
		for _, n := range c.Nodes[3:] { // They grant it when the others are being raised.
			onScript(t, n, redlock.FencedLockScript.Hash.(string), func() { time.Sleep(10 * time.Millisecond) })
		}
		var slow sync.Once
		onScript(t, c.Nodes[0], raiseMark(), func() { takeAway(t, c.Nodes[0]) })
		onScript(t, c.Nodes[1], raiseMark(), func() { slow.Do(func() { time.Sleep(20 * time.Millisecond) }) })
		onScript(t, c.Nodes[2], raiseMark(), func() { takeAway(t, c.Nodes[2]) })
		start := time.Now()
		l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		assert.Equal(t, base+31, l.Fence())
		assert.Equal(t, 20*time.Millisecond, time.Since(start))
		got := countersOf(t, c, "x")
		assert.Equal(t, []int64{base + 31, base + 31, base + 31}, []int64{got[1], got[3], got[4]})
		synctest.Wait()
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// A raise waits for a silent node no longer than the node timeout, and a cancelled
// context ends it at once; nothing is left then.
func TestFenceRaiseEnds(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithFencing())
		base := ahead()
		setCounters(t, c, "x", base, base+10, base+20)
		for _, n := range c.Nodes {
			onScript(t, n, raiseMark(), func() { time.Sleep(300 * time.Millisecond) })
		}
		start := time.Now()
		_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.Equal(t, redlock.DefaultNodeTimeout, time.Since(start))
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

// Raises, one after the other, take one node timeout together.
func TestFenceRaisesShareOneNodeTimeout(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithFencing())
		warm(t, r)
		base := ahead()
		setCounters(t, c, "x", base, base, base+10, base+20, base+30)
		for _, n := range c.Nodes[3:] { // Their grants are above the fence: they do not count.
			onScript(t, n, redlock.FencedLockScript.Hash.(string), func() { time.Sleep(10 * time.Millisecond) })
		}
		onScript(t, c.Nodes[0], raiseMark(), func() {
			takeAway(t, c.Nodes[0])
			time.Sleep(200 * time.Millisecond)
		})
		for _, n := range c.Nodes[1:3] { // The second raise is one of node 2 and 3.
			onScript(t, n, raiseMark(), func() { time.Sleep(10 * time.Second) })
		}
		start := time.Now()
		_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.Error(t, err)
		assert.Equal(t, redlock.DefaultNodeTimeout, time.Since(start))
		assert.Greater(t, countersOf(t, c, "x")[3], base+21, "there was a second raise")
		time.Sleep(time.Minute)
	})
}

// A quorum that has said the same is enough, whatever others say before the caller
// has woken up.
func TestFenceRaiseIsNotNeededByAQuorumThatAgrees(t *testing.T) {
	for range 30 {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c, redlock.WithFencing())
			l, err := r.TryLock(t.Context(), []string{"warm"}, ttl)
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, l.Unlock(t.Context()))
			synctest.Wait()
			base := ahead()
			setCounters(t, c, "x", base, base, base+10)
			onScript(t, c.Nodes[2], redlock.FencedLockScript.Hash.(string), func() { time.Sleep(time.Millisecond) })
			l, err = r.TryLock(t.Context(), []string{"x"}, ttl)
			require.NoError(t, err)
			assert.Equal(t, base+1, l.Fence())
			assert.Zero(t, r.Stats().Raised)
			time.Sleep(time.Second)
		})
	}
}

// A minority that hangs after its grant must not fail the raise: who comes late is asked
// at once.
func TestFenceRaiseSurvivesAHungMinority(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithFencing())
		base := ahead()
		setCounters(t, c, "x", base, base, base+10)
		onScript(t, c.Nodes[0], redlock.FencedLockScript.Hash.(string), func() { time.Sleep(5 * time.Millisecond) })
		onScript(t, c.Nodes[1], raiseMark(), func() { time.Sleep(10 * time.Second) })
		start := time.Now()
		l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		assert.Equal(t, base+11, l.Fence())
		assert.Less(t, time.Since(start), 20*time.Millisecond)
		time.Sleep(20 * time.Second)
	})
}

// Events tell of the lock once: when it has its fence, or none comes of it.
func TestFenceRaiseHasEvents(t *testing.T) {
	for _, lost := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			var mu sync.Mutex
			var decided []redlock.Event
			r := newRedlock(t, c, redlock.WithFencing(), redlock.WithHook(func(_ context.Context, e redlock.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Op == redlock.OpLock && e.Kind == redlock.EventDecided {
					decided = append(decided, e)
				}
			}))
			base := ahead()
			setCounters(t, c, "x", base, base+10, base+20)
			for _, n := range c.Nodes {
				onScript(t, n, raiseMark(), func() {
					if lost {
						takeAway(t, n)
					}
				})
			}
			_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			require.NotEmpty(t, decided)
			for _, e := range decided {
				assert.Equal(t, lost, e.Err != nil)
				assert.Equal(t, lost, e.Until.IsZero())
			}
			if lost {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				assert.Len(t, decided, 1)
			}
		})
	}
}

// A split vote and raises that go on: a call still ends within three node timeouts, and
// leaves nothing.
func TestFenceContestsWithRaisesEndInTime(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Slow(0, 2*time.Millisecond))
		for i := range int64(rounds(30, 8)) {
			a, b := newRedlock(t, c, redlock.WithFencing()), newRedlock(t, c, redlock.WithFencing())
			base := ahead()
			setCounters(t, c, "x", base, base+i%7, base+2, base+i%3, base+4)
			var all sync.WaitGroup
			for _, r := range []*redlock.Redlock{a, b, a, b} {
				all.Go(func() {
					start := time.Now()
					l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
					assert.LessOrEqual(t, time.Since(start), 3*redlock.DefaultNodeTimeout)
					if err == nil {
						_ = l.Unlock(t.Context())
					}
				})
			}
			all.Wait()
			require.NoError(t, a.Close(t.Context()))
			require.NoError(t, b.Close(t.Context()))
			synctest.Wait()
			requireNoKeys(t, c)
		}
	})
}

func TestFenceRaiseDuringCloseLeavesNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithFencing(), redlock.WithMinHold(ttl))
		base := ahead()
		setCounters(t, c, "x", base, base+10, base+20)
		for _, n := range c.Nodes {
			onScript(t, n, raiseMark(), func() { time.Sleep(50 * time.Millisecond) })
		}
		done := make(chan error)
		go func() {
			_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
			done <- err
		}()
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, r.Close(t.Context()))
		require.ErrorIs(t, <-done, redlock.ErrClosed)
		requireNoKeys(t, c)
	})
}
