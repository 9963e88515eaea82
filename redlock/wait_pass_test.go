package redlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/testkit"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

// Whoever is told of a release and does not want it any more tells the next.
func TestWaitLinePassesOnAReleaseThatAProcessHasNoUseFor(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		holder := newRedlock(t, c)
		held, err := holder.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		first := startLock(t, newRedlock(t, c), ctx, []string{"x"}, slowly()...)
		second := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		cancel()
		<-first.done
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, second.got(t).Unlock(t.Context()))
		assert.Less(t, second.at.Sub(released), 10*time.Millisecond)
	})
}

// One that has been told, and is cancelled before it has the lock, does so too.
func TestWaitLinePassesOnAReleaseOfAWaiterCancelledInItsAttempt(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		first := startLock(t, newRedlock(t, c), ctx, []string{"x"}, slowly()...)
		second := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context())) // 2 ms
		time.Sleep(1500 * time.Microsecond)          // The first one's requests are on their way.
		cancel()
		<-first.done
		require.ErrorIs(t, first.err, context.Canceled)
		require.NoError(t, second.got(t).Unlock(t.Context()))
		assert.Less(t, second.at.Sub(released), 50*time.Millisecond)
		time.Sleep(time.Second)
		requireNoKeys(t, c)
	})
}

// A process that has died without a word is passed over.
func TestWaitLinePassesOverADeadWaiter(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", time.Hour)
		nodes, taps := tapped(c)
		r, err := redlock.New(nodes)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		first := startLock(t, r, ctx, []string{"x"}, slowly()...)
		second := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		for _, tp := range taps {
			tp.Cut()
		}
		synctest.Wait()
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		l := second.got(t)
		assert.Less(t, second.at.Sub(released), 10*time.Millisecond)
		cancel()
		<-first.done
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, r.Close(t.Context()))
	})
}

// One that was told that x is free, and cannot have it because of y, tells the next.
func TestWaitLinePassesOnAReleaseThatAWaiterForSeveralCannotUse(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		h := newRedlock(t, c)
		x, err := h.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		_, err = h.TryLock(t.Context(), []string{"y"}, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		both := startLock(t, newRedlock(t, c), ctx, []string{"x", "y"}, slowly()...)
		one := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		released := time.Now()
		require.NoError(t, x.Unlock(t.Context()))
		l := one.got(t)
		assert.Less(t, one.at.Sub(released), time.Second, "x was free all the time, no message was lost")
		cancel()
		<-both.done
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// A release that a process tells itself of, and cannot use, is not lost for others.
func TestWaitLinePassesOnALocalReleaseThatAWaiterForSeveralCannotUse(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a := newRedlock(t, c)
		x, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		lockElsewhere(t, c, "y", time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		both := startLock(t, a, ctx, []string{"x", "y"}, slowly()...)
		one := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		time.Sleep(5 * time.Second)
		released := time.Now()
		require.NoError(t, x.Unlock(t.Context()))
		l := one.got(t)
		assert.Less(t, one.at.Sub(released), time.Second, "x was free all the time, no message was lost")
		cancel()
		<-both.done
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// However many have given up, the one that waits is told at once.
func TestWaitLinePassesNoReleaseThroughThoseThatHaveGivenUp(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", 1000*time.Hour)
		for range rounds(40, 25) {
			ctx, cancel := context.WithCancel(t.Context())
			w := startLock(t, newRedlock(t, c), ctx, []string{"x"}, slowly()...)
			cancel()
			<-w.done
		}
		w := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		require.NoError(t, c.Slow(500*time.Microsecond, 500*time.Microsecond))
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		l := w.got(t)
		assert.Less(t, w.at.Sub(released), 10*time.Millisecond, "round trip 1 ms")
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// All messages that a process has no use for are passed on, not only the first: the next one
// does not have to wait for those that are missing.
func TestWaitLinePassesOnEveryMessage(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", time.Hour)
		idle := newRedlock(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		gone := startLock(t, idle, ctx, []string{"x"}, slowly()...)
		cancel()
		<-gone.done
		w := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		for _, n := range c.Nodes { // As if the one that has gone had not left the lines.
			do(t, n, "ZADD", redlock.LineKey("x"), 1, redlock.ChannelOf(idle))
		}
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		l := w.got(t)
		assert.Equal(t, released, w.at)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// Whoever leaves after it was told passes the release on under its name, by which the next
// one counts the messages about it; whoever was not told only leaves.
func TestWaitLineReleaseKeepsItsName(t *testing.T) {
	for _, told := range []bool{true, false} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			held := lockElsewhere(t, c, "x", time.Hour)
			r := newRedlock(t, c)
			ctx, cancel := context.WithCancel(t.Context())
			w := startLock(t, r, ctx, []string{"x"}, slowly()...)
			var mu sync.Mutex
			var names []string
			require.NoError(t, c.Nodes[1].OnCommand(func(_ string, args []string) {
				mu.Lock()
				defer mu.Unlock()
				if len(args) > 4 && args[0] == redlock.PassScript.Hash.(string) {
					names = append(names, args[4])
				}
			}))
			name := tokens.Digest(held.Token())
			if told {
				testkit.QueueOf(r).Hear(0, "x", name)
			} else {
				name = ""
			}
			cancel()
			<-w.done
			synctest.Wait()
			mu.Lock()
			assert.Equal(t, []string{name}, names)
			mu.Unlock()
			require.NoError(t, held.Unlock(t.Context()))
		})
	}
}

// Somebody is told, and refused because of an attempt of a third client, which is cancelled or
// takes too long: when that one gives its votes back, it is told again.
func TestWaitLineAttemptThatIsCutShortSwallowsNoWakeUp(t *testing.T) {
	for name, try := range map[string]func(t *testing.T, r *redlock.Redlock) error{
		"TryLock cancelled": func(t *testing.T, r *redlock.Redlock) error {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Microsecond)
			defer cancel()
			_, err := r.TryLock(ctx, []string{"x"}, time.Minute)
			return err
		},
		"Lock cancelled": func(t *testing.T, r *redlock.Redlock) error {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Microsecond)
			defer cancel()
			_, err := r.Lock(ctx, []string{"x"}, time.Minute)
			return err
		},
		"timed out": func(t *testing.T, r *redlock.Redlock) error {
			_, err := r.TryLock(t.Context(), []string{"x"}, time.Minute, redlock.WithNodeTimeout(1500*time.Microsecond))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				h, third := newRedlock(t, c), newRedlock(t, c)
				_, err := third.TryLock(t.Context(), []string{"other"}, time.Second) // It is connected.
				require.NoError(t, err)
				held, err := h.TryLock(t.Context(), []string{"x"}, time.Hour)
				require.NoError(t, err)
				w := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
				require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
				released := time.Now()
				go func() { assert.NoError(t, held.Unlock(t.Context())) }() // Arrives after 1 ms; w asks 2 ms later.
				time.Sleep(time.Millisecond)
				require.Error(t, try(t, third)) // Arrives at 2 ms, gives up at 2.5.
				l := w.got(t)
				assert.Less(t, w.at.Sub(released), 50*time.Millisecond)
				require.NoError(t, l.Unlock(t.Context()))
				time.Sleep(2 * time.Second)
				requireNoKeys(t, c)
			})
		})
	}
}
