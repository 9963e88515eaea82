package redlocktusd

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

const (
	id  = "24e533e02ec3bc40c387f1a0e460e216"
	ttl = 10 * time.Second
)

func unasked() { panic("must not be called") }

func newLock(t *testing.T, l *Locker) handler.Lock {
	t.Helper()
	lock, err := l.NewLock(id)
	require.NoError(t, err)
	return lock
}

func limit(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// lockers runs a test in a bubble, with two lockers of one server, and with those of two. A bubble's test
// fails if it leaves a goroutine.
func lockers(t *testing.T, test func(t *testing.T, c *redlocktest.Cluster, one, two *Locker)) {
	t.Helper()
	for name, of := range map[string]func(c *redlocktest.Cluster) *redlock.Redlock{
		"one server":  func(c *redlocktest.Cluster) *redlock.Redlock { return c.Redlock },
		"two servers": func(c *redlocktest.Cluster) *redlock.Redlock { return c.NewRedlock() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := redlocktest.New(t, 3)
				test(t, c, New(c.Redlock, ttl), New(of(c), ttl))
			})
		})
	}
}

// The first two are what tusd tests its own lockers for, besides a wait that ends: see TestErrors.
func TestLockAndUnlock(t *testing.T) {
	lockers(t, func(t *testing.T, c *redlocktest.Cluster, one, two *Locker) {
		for _, l := range []*Locker{one, two} {
			lock := newLock(t, l)
			require.NoError(t, lock.Unlock(), "nothing is locked")
			require.NoError(t, lock.Lock(limit(t, time.Second), unasked))
			require.Equal(t, []string{"tusd:" + id}, c.Held())
			time.Sleep(10 * ttl)
			require.Equal(t, []string{"tusd:" + id}, c.Held(), "after the end of the context and ten times the ttl")
			require.NoError(t, lock.Unlock())
			c.AssertFree()
			require.NoError(t, lock.Unlock())
		}
	})
}

func TestRequestUnlock(t *testing.T) {
	lockers(t, func(t *testing.T, c *redlocktest.Cluster, one, two *Locker) {
		const work = 10 * time.Millisecond
		held := newLock(t, one)
		require.NoError(t, held.Lock(t.Context(), func() {
			time.Sleep(work)
			assert.NoError(t, held.Unlock())
		}))
		time.Sleep(ttl)
		began := time.Now()
		next := newLock(t, two)
		require.NoError(t, next.Lock(limit(t, 20*time.Second), unasked))
		if one.r == two.r {
			require.Equal(t, work, time.Since(began))
		} else {
			require.LessOrEqual(t, time.Since(began), ttl/4, "after the next extension")
		}
		require.NoError(t, next.Unlock())
		c.AssertFree()
	})
}

func TestALostLock(t *testing.T) {
	lockers(t, func(t *testing.T, c *redlocktest.Cluster, one, two *Locker) {
		asked := make(chan struct{})
		lost := newLock(t, one)
		require.NoError(t, lost.Lock(t.Context(), func() { close(asked) }))
		c.Forget("tusd:" + id)
		next := newLock(t, two)
		require.NoError(t, next.Lock(t.Context(), unasked))
		select {
		case <-asked:
		case <-time.After(ttl):
			t.Error("the request was not asked to stop")
		}
		require.ErrorIs(t, lost.Unlock(), redlock.ErrLost)
		require.NoError(t, next.Unlock())
		c.AssertFree()
	})
}

// A request that holds a lock is asked to stop while nobody else can have it yet.
func TestALockThatCannotBeExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.New(t, 3)
		l := New(c.Redlock, ttl)
		asked := make(chan struct{})
		held := newLock(t, l)
		began := time.Now()
		require.NoError(t, held.Lock(t.Context(), func() { close(asked) }))
		c.HangMajority()
		<-asked
		require.LessOrEqual(t, time.Since(began), ttl-ttl/3)
		require.GreaterOrEqual(t, time.Since(began), ttl/2)
		c.Recover()
		require.NoError(t, held.Unlock(), "it was held to the end")
	})
}

// A lock that is released asks nobody for anything any more.
func TestNothingIsAskedAfterUnlock(t *testing.T) {
	lockers(t, func(t *testing.T, c *redlocktest.Cluster, one, two *Locker) {
		first, second := newLock(t, one), newLock(t, two)
		require.NoError(t, first.Lock(t.Context(), unasked))
		require.NoError(t, first.Unlock())
		require.NoError(t, second.Lock(t.Context(), unasked))
		require.NoError(t, second.Unlock())
		c.HangMajority()
		time.Sleep(2 * ttl)
	})
}

func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.New(t, 3)
		l := New(c.Redlock, ttl)
		c.StopMajority()
		began := time.Now()
		require.Equal(t, handler.ErrLockTimeout, newLock(t, l).Lock(limit(t, time.Minute), unasked))
		require.GreaterOrEqual(t, time.Since(began), time.Minute, "it waits as long as it may")
		impatient := New(c.Redlock, ttl, redlock.WithRetryCount(0))
		require.Equal(t, handler.ErrLockTimeout, newLock(t, impatient).Lock(t.Context(), unasked))
		c.Recover()

		held := newLock(t, l)
		require.NoError(t, held.Lock(t.Context(), func() {}))
		require.Equal(t, handler.ErrLockTimeout, newLock(t, impatient).Lock(t.Context(), unasked))
		require.NoError(t, held.Unlock())

		wrong := newLock(t, New(c.Redlock, ttl, redlock.WithStopTime(ttl)))
		require.ErrorContains(t, wrong.Lock(t.Context(), unasked), "stop time")
		require.ErrorContains(t, newLock(t, New(nil, ttl)).Lock(t.Context(), unasked), "nil *Redlock")
		require.NoError(t, c.Redlock.Close(t.Context()))
		require.ErrorIs(t, newLock(t, l).Lock(t.Context(), unasked), redlock.ErrClosed)
	})
}
