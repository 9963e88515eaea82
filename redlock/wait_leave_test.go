package redlock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/testkit"
	"github.com/seed6c881748/redlock/redlock"
)

func TestWaiterThatIsCancelledLeavesAtOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c), newRedlock(t, c)
		held, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		type call struct {
			*waitingLock

			cancel context.CancelFunc
		}
		var calls []call
		for range 4 {
			ctx, cancel := context.WithCancel(t.Context())
			calls = append(calls, call{startLock(t, b, ctx, []string{"x"}, slowly()...), cancel})
		}
		for _, i := range []int{2, 0} { // From the middle, and the head.
			at := time.Now()
			calls[i].cancel()
			<-calls[i].done
			require.ErrorIs(t, calls[i].err, context.Canceled)
			require.ErrorIs(t, calls[i].err, redlock.ErrTaken)
			assert.Equal(t, at, calls[i].at)
		}
		time.Sleep(10 * time.Millisecond)
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		for _, i := range []int{1, 3} {
			require.NoError(t, calls[i].got(t).Unlock(t.Context()))
			calls[i].cancel()
		}
		assert.Less(t, time.Since(released), 10*time.Millisecond)
	})
}

// A panic in the caller's function, which net/http would recover from, takes the waiter out of its line.
func TestWaiterThatPanicsInRetryIfLeavesTheLine(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		held := lockElsewhere(t, c, "x", time.Hour)
		calls := 0
		func() {
			defer func() { _ = recover() }() // As net/http does around a handler.
			_, _ = r.Lock(t.Context(), []string{"x"}, ttl, redlock.WithRetryIf(func(error) bool {
				if calls++; calls == 2 {
					panic("in the user's function")
				}
				return true
			}))
		}()
		require.NoError(t, held.Unlock(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_, err := r.Lock(ctx, []string{"x"}, ttl, redlock.WithRetryCount(-1))
		assert.NoError(t, err, "x has been free for 10 minutes")
	})
}

// A process that gives up does not stay in line on the nodes.
func TestWaitIsLeftByProcessesThatGiveUp(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", 1000*time.Hour)
		for range 60 { // One a minute, as a cron job.
			r := newRedlock(t, c)
			_, err := r.Lock(t.Context(), []string{"x"}, ttl)
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.NoError(t, r.Close(t.Context()))
			time.Sleep(50 * time.Second)
		}
		conn, err := c.Nodes[0].Conn(t.Context())
		require.NoError(t, err)
		n, err := redis.Int(conn.Do("ZCARD", redlock.LineKey("x")))
		require.NoError(t, err)
		_ = conn.Close()
		assert.LessOrEqual(t, n, 5, "sessions in line; all of them have ended")
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// Also when the next head is cancelled before it has tried.
func TestWaitersThatGiveUpTogetherLeaveTheLine(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		lockElsewhere(t, c, "x", time.Hour)
		for range 20 {
			a := newRedlock(t, c)
			ctx, cancel := context.WithCancel(t.Context())
			w1 := startLock(t, a, ctx, []string{"x"}, slowly()...)
			w2 := startLock(t, a, ctx, []string{"x"}, slowly()...)
			cancel()
			<-w1.done
			<-w2.done
		}
		time.Sleep(time.Second)
		conn, err := c.Nodes[0].Conn(t.Context())
		require.NoError(t, err)
		n, err := conn.Do("ZCARD", redlock.LineKey("x"))
		require.NoError(t, err)
		_ = conn.Close()
		assert.EqualValues(t, 0, n)
	})
}

// Two waiters that are cancelled at any moment around a release leave nobody asleep.
func TestWaitersCancelledAtAnyMoment(t *testing.T) {
	for i := 0; i < 150; i += rounds(1, 20) {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			h := newRedlock(t, c)
			x, err := h.TryLock(t.Context(), []string{"x"}, time.Hour)
			require.NoError(t, err)
			a, b := newRedlock(t, c), newRedlock(t, c)
			ctx, cancel := context.WithCancel(t.Context())
			w1 := startLock(t, a, ctx, []string{"x"}, slowly()...)
			w2 := startLock(t, a, ctx, []string{"x"}, slowly()...)
			w3 := startLock(t, b, t.Context(), []string{"x"}, slowly()...)
			for j, n := range c.Nodes {
				require.NoError(t, n.Slow(time.Duration(1+(i+j)%3)*time.Millisecond, 3*time.Millisecond))
			}
			released := time.Now()
			go func() { _ = x.Unlock(t.Context()) }()
			time.Sleep(time.Duration(i) * 200 * time.Microsecond)
			cancel()
			<-w1.done
			<-w2.done
			for _, w := range []*waitingLock{w1, w2} {
				if w.lock != nil {
					released = time.Now()
					require.NoError(t, w.lock.Unlock(t.Context()))
				}
			}
			l := w3.got(t)
			assert.Less(t, w3.at.Sub(released), time.Second)
			require.NoError(t, l.Unlock(t.Context()))
			time.Sleep(100 * time.Millisecond)
			requireNoKeys(t, c)
		})
	}
}

// Whoever polls often has nobody else do so once it has left.
func TestWaiterThatPolledOftenAndLeftCostsNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Slow(500*time.Microsecond, 500*time.Microsecond))
		r := newRedlock(t, c)
		lockElsewhere(t, c, "x", 24*time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		head := startLock(t, r, ctx, []string{"x"}, redlock.WithRetryCount(-1), redlock.WithRetryDelay(time.Second), redlock.WithRetryJitter(0))
		_, err := r.Lock(t.Context(), []string{"x"}, ttl, redlock.WithRetryCount(3), redlock.WithRetryDelay(0))
		require.ErrorIs(t, err, redlock.ErrTaken)
		asked := countCommands(t, redlock.QueueScript.Hash.(string), c.Nodes[0])
		time.Sleep(10 * time.Second)
		assert.LessOrEqual(t, asked.Load(), int64(12), "requests in 10 s of one waiter with a retry delay of 1 s")
		cancel()
		<-head.done
	})
}

// What is remembered of a resource goes, also in a process that never waits.
func TestWaitQueuesAreForgotten(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c), newRedlock(t, c)
		for i := range 50 {
			res := []string{fmt.Sprintf("job:%d", i)}
			held, err := a.TryLock(t.Context(), res, ttl)
			require.NoError(t, err)
			w := startLock(t, b, t.Context(), res, slowly()...)
			require.NoError(t, held.Unlock(t.Context()))
			require.NoError(t, w.got(t).Unlock(t.Context()))
		}
		time.Sleep(time.Hour)
		cycle(t, a, "z", ttl)
		known, _ := testkit.QueueOf(a).Len()
		assert.LessOrEqual(t, known, 2, "after an hour")
	})
}

func TestWaitsEndWithClose(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		lockElsewhere(t, c, "x", time.Hour)
		first := startLock(t, r, t.Context(), []string{"x"}, slowly()...)
		second := startLock(t, r, t.Context(), []string{"x"}, slowly()...)
		at := time.Now()
		require.NoError(t, r.Close(t.Context()))
		for _, w := range []*waitingLock{first, second} {
			<-w.done
			require.ErrorIs(t, w.err, redlock.ErrClosed)
			assert.Equal(t, at, w.at)
		}
	})
}
