package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func TestWaiterOfAnotherProcessIsWokenByARelease(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		inBubble(t, n, func(t *testing.T, c *testcluster.Cluster) {
			slowDown(t, c) // One of two nodes alone may refuse; in line there only, it waits for the other's message.
			a := newRedlock(t, c, redlock.WithPrefix("p:"))
			b := newRedlock(t, c, redlock.WithPrefix("p:"))
			held, err := a.TryLock(t.Context(), []string{"x", "y"}, ttl)
			require.NoError(t, err)
			w := startLock(t, b, t.Context(), []string{"y"}, slowly()...)
			released := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			l := w.got(t)
			assert.LessOrEqual(t, w.at.Sub(released), time.Millisecond, "five round trips")
			assert.Equal(t, 2, l.Attempts())
			assert.Equal(t, int64(1), b.Stats().Woken)
			assert.True(t, b.Stats().Nodes[0].Listens)
			require.NoError(t, l.Unlock(t.Context()))
		})
	}
}

func TestWaitTakesARetryDelayForLostMessages(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes, taps := tapped(c)
		r := newOver(t, nodes)
		for _, tp := range taps {
			tp.SetMute(true)
		}
		for range 20 {
			held := lockElsewhere(t, c, "x", time.Hour)
			w := startLock(t, r, t.Context(), []string{"x"})
			time.Sleep(300 * time.Millisecond)
			released := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			require.NoError(t, w.got(t).Unlock(t.Context()))
			assert.LessOrEqual(t, w.at.Sub(released), redlock.DefaultRetryDelay+redlock.DefaultRetryJitter)
		}
	})
}

func TestWaitersAreWokenByTheKeysExpiryWhenTheHolderDies(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		for i := 0; i < 20; i += rounds(1, 4) {
			life := 100*time.Millisecond + time.Duration(i)*77*time.Millisecond
			died := time.Now()
			lockElsewhere(t, c, "x", life)
			w := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
			require.NoError(t, w.got(t).Unlock(t.Context()))
			late := w.at.Sub(died.Add(life))
			assert.Positive(t, late)
			assert.Less(t, late, 10*time.Millisecond)
		}
	})
}

func TestWaitersForAMinHoldAreWokenWhenItIsOver(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		start := time.Now()
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour, redlock.WithMinHold(5*time.Second))
		require.NoError(t, err)
		w := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.InDelta(t, 5, w.at.Sub(start).Seconds(), 0.02)
	})
}

// A release that the servers have refused, and that is sent again, wakes waiters, too.
func TestWaitersAreWokenByARepeatedRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		held, err := r.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		w := startLock(t, r, t.Context(), []string{"x"}, slowly()...)
		other := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		require.NoError(t, c.SetError("BUSY running a script"))
		require.ErrorIs(t, held.Unlock(t.Context()), redlock.ErrNoQuorum)
		require.NoError(t, c.SetError(""))
		free := time.Now()
		l := w.got(t)
		assert.Less(t, w.at.Sub(free), 2*time.Second, "the lock is free, two processes wait")
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, other.got(t).Unlock(t.Context()))
	})
}

// After SCRIPT FLUSH the release is sent again, behind the request that it was to make room for.
func TestWaitEndsThoughAScriptFlush(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a := newRedlock(t, c)
		x, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		w := startLock(t, a, t.Context(), []string{"x"}, slowly()...)
		for _, n := range c.Nodes {
			conn, err := n.Conn(t.Context())
			require.NoError(t, err)
			_, err = conn.Do("SCRIPT", "FLUSH")
			require.NoError(t, err)
			_, err = conn.Do("SCRIPT", "LOAD", redlock.QueueScript.Source)
			require.NoError(t, err)
			_ = conn.Close()
			require.NoError(t, n.Slow(time.Millisecond, time.Millisecond))
		}
		time.Sleep(5 * time.Second)
		released := time.Now()
		require.NoError(t, x.Unlock(t.Context()))
		w.got(t)
		assert.Less(t, w.at.Sub(released), time.Second)
	})
}

// The attempt that a release has set off fails before the nodes have answered.
func TestWaitGoesOnIfTheAttemptOfAHandOverTimesOut(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a := newRedlock(t, c, redlock.WithNodeTimeout(time.Second))
		x, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		w := startLock(t, a, t.Context(), []string{"x"}, append(slowly(), redlock.WithNodeTimeout(10*time.Millisecond))...)
		time.Sleep(5 * time.Second)
		require.NoError(t, c.Hang()) // A pause of all nodes, of 30 ms
		time.AfterFunc(30*time.Millisecond, func() {
			for _, n := range c.Nodes {
				_ = n.Resume()
			}
		})
		released := time.Now()
		require.NoError(t, x.Unlock(t.Context()))
		w.got(t)
		assert.Less(t, w.at.Sub(released), time.Second)
	})
}

// The entry of a session that has ended must not keep the release from the waiters of this process.
func TestWaitEndsThoughADeadSessionIsInLine(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes := nodesOf(c)
		for i := range nodes {
			nodes[i].Pool = &secondPool{Pool: nodes[i].Pool, fail: func() error { return assert.AnError }}
		}
		r := newOver(t, nodes)
		for _, dead := range []bool{false, true} {
			held, err := r.TryLock(t.Context(), []string{"x"}, time.Hour)
			require.NoError(t, err)
			if dead {
				ctx, cancel := context.WithCancel(t.Context())
				d, err := redlock.New(nodesOf(c))
				require.NoError(t, err)
				w := startLock(t, d, ctx, []string{"x"}, slowly()...)
				cancel()
				<-w.done
				require.NoError(t, d.Close(t.Context()))
			}
			w := startLock(t, r, t.Context(), []string{"x"}, slowly()...)
			released := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			l := w.got(t)
			assert.Less(t, w.at.Sub(released), time.Second, "dead: %v", dead)
			require.NoError(t, l.Unlock(t.Context()))
		}
	})
}

func TestWaitIgnoresMessagesOfOthers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithPrefix("p:"))
		held, err := newRedlock(t, c, redlock.WithPrefix("p:")).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		w := startLock(t, r, t.Context(), []string{"x"}, slowly()...)
		channel := redlock.ChannelOf(r)
		for _, n := range c.Nodes {
			conn, err := n.Conn(t.Context())
			require.NoError(t, err)
			for _, payload := range []string{"", "short", "123456789012", "123456789012q", "123456789012p:nobody waits for it", "123456789012p:x"} {
				_, err := conn.Do("PUBLISH", channel, payload)
				require.NoError(t, err)
			}
			require.NoError(t, conn.Close())
		}
		time.Sleep(time.Second)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
	})
}

// A holder that keeps a short lock refutes every guess when it ends.
func TestWaitForAKeptShortLockDoesNotAskAllTheTime(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		h, r := newRedlock(t, c), newRedlock(t, c)
		held, err := h.TryLock(t.Context(), []string{"x"}, 100*time.Millisecond)
		require.NoError(t, err)
		held.KeepAlive(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		w := startLock(t, r, ctx, []string{"x"}, redlock.WithRetryCount(-1), redlock.WithRetryDelay(10*time.Second), redlock.WithRetryJitter(0))
		asked := countCommands(t, redlock.QueueScript.Hash.(string), c.Nodes[0])
		time.Sleep(10 * time.Second)
		assert.Less(t, asked.Load(), int64(20), "in one retry delay of 10 s")
		cancel()
		<-w.done
		require.NoError(t, held.Unlock(t.Context()))
	})
}
