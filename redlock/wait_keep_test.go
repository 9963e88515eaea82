package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/waiting"
	"github.com/seed6c881748/redlock/redlock"
)

// holdBoth has two clients lock a and b, which end at different times: all nodes name the same
// holder to whoever wants both.
func holdBoth(t *testing.T, c *testcluster.Cluster) (a, b *redlock.Lock) {
	t.Helper()
	slowDown(t, c)
	return lockElsewhere(t, c, "a", time.Hour), lockElsewhere(t, c, "b", 2*time.Hour)
}

// slowDown has every answer take a moment. Without, a call may be refused by a quorum before the
// last node has been asked, which it is not any more then: it is not in line there.
func slowDown(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	require.NoError(t, c.Slow(100*time.Microsecond, 100*time.Microsecond))
}

// A waiter for a and b that was told of a, while b is held, keeps a for a moment: if b is
// released meanwhile, it has both.
func TestWaitLineOneForSeveralKeepsWhatItWasToldOf(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := holdBoth(t, c)
		both := startLock(t, newRedlock(t, c), t.Context(), []string{"a", "b"}, slowly()...)
		one := startLock(t, newRedlock(t, c), t.Context(), []string{"a"}, slowly()...)
		require.NoError(t, a.Unlock(t.Context()))
		time.Sleep(waiting.KeepTime * 4 / 5)
		released := time.Now()
		require.NoError(t, b.Unlock(t.Context()))
		l := both.got(t)
		assert.Less(t, both.at.Sub(released), 10*time.Millisecond)
		time.Sleep(time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, one.got(t).Unlock(t.Context()))
		assert.True(t, both.at.Before(one.at))
	})
}

// It does so once for each holder of b. The next time that it is told of a, it passes that on at
// once.
func TestWaitLineOneForSeveralKeepsOnceForAHolder(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := holdBoth(t, c)
		opts := []redlock.Option{redlock.WithRetryCount(-1), redlock.WithRetryDelay(time.Second), redlock.WithRetryJitter(0)}
		both := startLock(t, newRedlock(t, c), t.Context(), []string{"a", "b"}, opts...)
		one := startLock(t, newRedlock(t, c), t.Context(), []string{"a"}, slowly()...)
		other := startLock(t, newRedlock(t, c), t.Context(), []string{"a"}, slowly()...)
		told := time.Now()
		require.NoError(t, a.Unlock(t.Context()))
		a = one.got(t)
		assert.InDelta(t, waiting.KeepTime, one.at.Sub(told), float64(10*time.Millisecond), "the first time")
		time.Sleep(time.Second) // The waiter for both has asked: it is in line for a again, as the first.
		told = time.Now()
		require.NoError(t, a.Unlock(t.Context()))
		a = other.got(t)
		assert.Less(t, other.at.Sub(told), waiting.KeepTime/2, "the second time")
		require.NoError(t, a.Unlock(t.Context()))
		require.NoError(t, b.Unlock(t.Context()))
		require.NoError(t, both.got(t).Unlock(t.Context()))
	})
}

// Waiters that take each other's place in a process do not keep a one after the other.
func TestWaitLineKeepingIsNotProlongedByThoseThatTakeThePlace(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := holdBoth(t, c)
		r := newRedlock(t, c)
		var all []*waitingLock
		var cancels []context.CancelFunc
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			all = append(all, startLock(t, r, ctx, []string{"a", "b"}, slowly()...))
		}
		one := startLock(t, newRedlock(t, c), t.Context(), []string{"a"}, slowly()...)
		told := time.Now()
		require.NoError(t, a.Unlock(t.Context()))
		for _, cancel := range cancels[:2] {
			time.Sleep(waiting.KeepTime * 2 / 5)
			cancel()
		}
		l := one.got(t)
		assert.InDelta(t, waiting.KeepTime, one.at.Sub(told), float64(10*time.Millisecond))
		cancels[2]()
		for _, w := range all {
			<-w.done
		}
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, b.Unlock(t.Context()))
	})
}

// A waiter that takes the place of one that has given up does not run ahead of another process
// that was told and is on its way.
func TestWaitLineGivesWayToWhoTakesAPlace(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		slowDown(t, c)
		distant := newOver(t, far(t, c), redlock.WithNodeTimeout(time.Second))
		held := lockElsewhere(t, c, "x", time.Hour)
		told := startLock(t, distant, t.Context(), []string{"x"}, slowly()...)
		time.Sleep(time.Second)
		r := newRedlock(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		first := startLock(t, r, ctx, []string{"x"}, slowly()...)
		second := startLock(t, r, t.Context(), []string{"x"}, slowly()...)
		require.NoError(t, held.Unlock(t.Context()))
		time.Sleep(10 * time.Millisecond)
		cancel() // The second one is the first in its line now, and x is free.
		<-first.done
		l := told.got(t)
		time.Sleep(time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, second.got(t).Unlock(t.Context()))
		assert.True(t, told.at.Before(second.at))
	})
}
