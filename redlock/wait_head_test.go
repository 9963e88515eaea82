package redlock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// An askedAt has the lock requests that nodes have got, by when.
type askedAt struct {
	mu    sync.Mutex
	nodes map[time.Duration][]int
}

// take returns the nodes that have got a lock request at this time, and forgets them.
func (a *askedAt) take(after time.Duration) []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer delete(a.nodes, after)
	return a.nodes[after]
}

// rest is how many have not been taken.
func (a *askedAt) rest() (requests int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, nodes := range a.nodes {
		requests += len(nodes)
	}
	return requests
}

// lockRequests records from now on which nodes get a lock request, and after how long.
func lockRequests(t *testing.T, c *testcluster.Cluster) *askedAt {
	t.Helper()
	a, start := &askedAt{nodes: map[time.Duration][]int{}}, time.Now()
	for i, n := range c.Nodes {
		require.NoError(t, n.OnCommand(func(cmd string, args []string) {
			if isLockRequest(cmd, args) {
				a.mu.Lock()
				defer a.mu.Unlock()
				after := time.Since(start)
				a.nodes[after] = append(a.nodes[after], i)
			}
		}))
	}
	return a
}

func TestWaitersOfAProcessAreServedInTheOrderOfTheirArrival(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c), newRedlock(t, c)
		held, err := a.TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 10 {
			w := startLock(t, b, t.Context(), []string{"x"}, slowly()...)
			wg.Go(func() {
				l := w.got(t)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				assert.NoError(t, l.Unlock(t.Context()))
			})
		}
		assert.Equal(t, 10, b.Stats().Waiting)
		start := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		wg.Wait()
		assert.Less(t, time.Since(start), 20*time.Millisecond)
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order)
	})
}

// Only the first in line asks the nodes, once in a retry delay, however many wait.
func TestWaitersAskTheNodesByTheirHeadOnly(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c), newRedlock(t, c)
		_, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var all []*waitingLock
		for i := range 20 {
			count := -1
			if i%2 == 1 {
				count = 1 << 20 // Their retries are counted.
			}
			all = append(all, startLock(t, b, ctx, []string{"x"}, redlock.WithRetryCount(count), redlock.WithRetryDelay(100*time.Millisecond), redlock.WithRetryJitter(0)))
		}
		asked := lockRequests(t, c)
		time.Sleep(10*time.Second + 50*time.Millisecond) // The last retry is not to race with this.
		for retry := range 100 {
			at := time.Duration(retry+1) * 100 * time.Millisecond
			nodes := asked.take(at)
			assert.GreaterOrEqual(t, len(nodes), 2, "a quorum is asked, after %v", at) // A release may overtake what is left.
			slices.Sort(nodes)
			assert.Len(t, slices.Compact(slices.Clone(nodes)), len(nodes), "once each, after %v: %v", at, nodes)
		}
		assert.Zero(t, asked.rest(), "requests between the retries of the head")
		cancel()
		for _, w := range all {
			<-w.done
			require.ErrorIs(t, w.err, context.Canceled)
			require.ErrorIs(t, w.err, redlock.ErrTaken, "what the head was told")
		}
		assert.Zero(t, b.Stats().Waiting)
	})
}

// A waiter that polls seldom must not hold up those behind it that poll often, if no release is heard of.
func TestWaiterAsksForItselfBehindOneThatPollsSeldom(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes, taps := tapped(c)
		r := newOver(t, nodes)
		held := lockElsewhere(t, c, "x", time.Hour)
		for _, tp := range taps {
			tp.SetMute(true)
		}
		head := startLock(t, r, t.Context(), []string{"x"}, redlock.WithRetryCount(-1), redlock.WithRetryDelay(time.Hour), redlock.WithRetryJitter(0))
		second := startLock(t, r, t.Context(), []string{"x"}, redlock.WithRetryCount(-1), redlock.WithRetryDelay(100*time.Millisecond))
		time.Sleep(time.Second)
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		l := second.got(t)
		assert.LessOrEqual(t, second.at.Sub(released), 200*time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, head.got(t).Unlock(t.Context()))
	})
}

// One that has no timer of its own, since the first in its line asks, gets one when that one
// has left and the next is no head.
func TestWaitersBehindOneThatIsNoHeadAskThemselves(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes, taps := tapped(c)
		r := newOver(t, nodes)
		h := newRedlock(t, c)
		x, err := h.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		_, err = h.TryLock(t.Context(), []string{"y"}, time.Hour)
		require.NoError(t, err)
		for _, tp := range taps {
			tp.SetMute(true)
		}
		opts := []redlock.Option{redlock.WithRetryCount(-1), redlock.WithRetryJitter(0)}
		ctx, cancel := context.WithCancel(t.Context())
		first, firstEnds := context.WithCancel(t.Context())
		all := []*waitingLock{
			startLock(t, r, first, []string{"x"}, opts...),
			startLock(t, r, ctx, []string{"y"}, opts...),
			startLock(t, r, ctx, []string{"x", "y"}, opts...), // No head: it is not the first for y.
		}
		w := startLock(t, r, t.Context(), []string{"x"}, opts...)
		firstEnds()
		<-all[0].done
		time.Sleep(time.Second)
		released := time.Now()
		require.NoError(t, x.Unlock(t.Context()))
		l := w.got(t)
		assert.LessOrEqual(t, w.at.Sub(released), 2*redlock.DefaultRetryDelay)
		cancel()
		for _, w := range all {
			<-w.done
		}
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// A waiter that is behind one that nobody can help asks for itself: an old answer is none.
func TestWaitersShareNoAnswerForLong(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		h, r := newRedlock(t, c), newRedlock(t, c)
		_, err := h.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		y, err := h.TryLock(t.Context(), []string{"y"}, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var all []*waitingLock
		yctx, ycancel := context.WithCancel(t.Context())
		all = append(all, startLock(t, r, ctx, []string{"x"}, slowly()...))
		all = append(all, startLock(t, r, yctx, []string{"y"}, slowly()...))
		all = append(all, startLock(t, r, ctx, []string{"x", "y"}, slowly()...))
		ycancel()
		require.NoError(t, y.Unlock(t.Context()))
		time.Sleep(time.Hour / 2)
		_, err = r.Lock(t.Context(), []string{"y"}, ttl)
		if err != nil {
			var qe *redlock.QuorumError
			require.ErrorAs(t, err, &qe)
			t.Log(err)
		}
		require.NoError(t, err, "y has been free for half an hour")
		cancel()
		for _, w := range all {
			<-w.done
		}
	})
}

func TestWaitCountsTimedRetriesInLine(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c), newRedlock(t, c)
		_, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		head := startLock(t, b, ctx, []string{"x"}, redlock.WithRetryCount(-1))
		asked := 0
		start := time.Now()
		_, err = b.Lock(t.Context(), []string{"x", "y"}, ttl, redlock.WithRetryCount(3), redlock.WithRetryDelay(time.Second), redlock.WithRetryJitter(0),
			redlock.WithRetryIf(func(err error) bool { asked++; return redlock.RetryDefault(err) }))
		assert.Equal(t, 3*time.Second, time.Since(start))
		require.ErrorIs(t, err, redlock.ErrTaken)
		var qe *redlock.QuorumError
		require.ErrorAs(t, err, &qe)
		assert.Equal(t, []string{"x", "y"}, qe.Resources)
		assert.Equal(t, 3, qe.Attempt)
		assert.Equal(t, 2, asked, "the last one is not asked about")
		holders := 0
		for _, v := range qe.Votes {
			if v.Holder != "" {
				holders++
			}
		}
		assert.GreaterOrEqual(t, holders, 2, "two refusals decide, the third may come late")

		// As it is for one that is first: the attempt at the beginning, and the timed ones.
		cancel()
		<-head.done
		start = time.Now()
		_, err = b.Lock(t.Context(), []string{"x"}, ttl, redlock.WithRetryCount(3), redlock.WithRetryDelay(time.Second), redlock.WithRetryJitter(0))
		assert.Equal(t, 3*time.Second, time.Since(start))
		require.ErrorAs(t, err, &qe)
		assert.Equal(t, 4, qe.Attempt)

		// And for one that no retry delay slows down.
		start = time.Now()
		_, err = b.Lock(t.Context(), []string{"x"}, ttl, redlock.WithRetryCount(3), redlock.WithRetryDelay(0))
		require.ErrorIs(t, err, redlock.ErrTaken)
		assert.Less(t, time.Since(start), 50*time.Millisecond)
	})
}

func TestWaitInLineIsEndedByRetryIf(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		lockElsewhere(t, c, "x", time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		head := startLock(t, r, ctx, []string{"x"}, redlock.WithRetryCount(-1))
		calls := 0
		_, err := r.Lock(t.Context(), []string{"x"}, ttl, redlock.WithRetryCount(-1), redlock.WithRetryIf(func(error) bool { calls++; return calls < 5 }))
		require.ErrorIs(t, err, redlock.ErrTaken)
		assert.Equal(t, 5, calls)
		cancel()
		<-head.done
	})
}

// What callers do with their errors must not race with those that share the answer.
func TestWaitersKeepTheirOwnRefusals(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		lockElsewhere(t, c, "x", time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					_, err := r.Lock(ctx, []string{"x"}, ttl, redlock.WithRetryCount(1+i), redlock.WithRetryDelay(5*time.Millisecond))
					var qe *redlock.QuorumError
					if errors.As(err, &qe) {
						slices.SortFunc(qe.Votes, func(a, b redlock.Vote) int { return int(b.Took - a.Took) })
						qe.Votes[0].Node = "mine"
						qe.Resources[0] = "mine"
					}
				}
			})
		}
		time.Sleep(200 * time.Millisecond)
		cancel()
		wg.Wait()
	})
}

// Nor be seen by them.
func TestWaitersDoNotShareARefusal(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		lockElsewhere(t, c, "x", time.Hour)
		first := make(chan struct{})
		go func() {
			defer close(first)
			_, refused := r.Lock(t.Context(), []string{"x"}, ttl, redlock.WithRetryCount(1), redlock.WithRetryDelay(time.Second), redlock.WithRetryJitter(0),
				redlock.WithRetryIf(func(refused error) bool {
					var qe *redlock.QuorumError
					errors.As(refused, &qe)
					qe.Votes[0].Node = "mine"
					return true
				}))
			assert.ErrorIs(t, refused, redlock.ErrTaken)
		}()
		time.Sleep(10 * time.Millisecond)
		_, err := r.Lock(t.Context(), []string{"x"}, ttl, redlock.WithRetryCount(1), redlock.WithRetryDelay(100*time.Millisecond), redlock.WithRetryJitter(0))
		var qe *redlock.QuorumError
		require.ErrorAs(t, err, &qe)
		t.Log(qe.Votes[0].Node, qe.Attempt)
		assert.NotEqual(t, "mine", qe.Votes[0].Node)
		<-first
	})
}

// Whoever gives way for a moment does not report that as taken.
func TestWaiterDoesNotTakeAFreeLockThatWasLeftToOthers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c), newRedlock(t, c)
		held, err := a.TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		w := startLock(t, b, t.Context(), []string{"x"}, slowly()...)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		time.Sleep(5 * time.Millisecond)
		requireNoKeys(t, c) // Nobody has it, nobody waits for it.
		l, err := a.Lock(t.Context(), []string{"x"}, ttl, redlock.WithRetryIf(func(err error) bool { return errors.Is(err, redlock.ErrNoQuorum) }))
		require.NoError(t, err)
		assert.Equal(t, 1, l.Attempts())
		require.NoError(t, l.Unlock(t.Context()))
	})
}
