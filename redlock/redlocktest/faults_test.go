package redlocktest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
)

var withoutQuorum = map[string]func(*Cluster){
	"hang": (*Cluster).HangMajority,
	"stop": (*Cluster).StopMajority,
	"slow": func(c *Cluster) { c.Slow(time.Minute) },
	"all":  func(c *Cluster) { c.HangMajority(); c.StopMajority(); c.Slow(time.Second) },
}

func TestWithoutQuorum(t *testing.T) {
	for name, fault := range withoutQuorum {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T) {
				sizes, times := []int{1, 3, 4}, 2
				if inRealTime(t) { // Each call without a quorum takes the node timeout.
					sizes, times = []int{3}, 1
				}
				for _, n := range sizes {
					c := New(t, n)
					l := tryLock(t, c.Redlock, "a")
					for range times {
						fault(c)
						refused(t, c.Redlock, "b", redlock.ErrNoQuorum)
						require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrNoQuorum)
						release := c.Take("b", 0)
						c.Recover()
						refused(t, c.Redlock, "b", redlock.ErrTaken)
						release()
						require.NoError(t, l.Extend(t.Context(), ttl))
					}
					require.NoError(t, l.Unlock(t.Context()))
					c.AssertFree()
				}
			})
		})
	}
}

// TestRecoverAfterLong: connections have been given up and attempts to connect
// have failed, and still the next call finds healthy nodes.
func TestRecoverAfterLong(t *testing.T) {
	for name, fault := range withoutQuorum {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for i := range 12 {
					if testing.Short() && i%6 != 5 {
						continue
					}
					c := New(t, 3, redlock.WithRetryCount(-1))
					other := c.NewRedlock()
					require.NoError(t, c.NewRedlock().Close(t.Context()))
					require.NoError(t, tryLock(t, other, "a").Unlock(t.Context()))
					fault(c)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*601*time.Millisecond)
					_, err := c.Redlock.Lock(ctx, []string{"a"}, ttl)
					cancel()
					require.Error(t, err)
					start := time.Now()
					c.Recover()
					require.LessOrEqual(t, time.Since(start), 1500*time.Millisecond)
					require.NoError(t, tryLock(t, c.Redlock, "b").Unlock(t.Context()))
					require.NoError(t, tryLock(t, other, "b").Unlock(t.Context()))
					c.AssertFree()
				}
			})
		})
	}
}

func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t, 3)
		const delay = 15*time.Millisecond + 1
		took := func(fn func()) time.Duration {
			start := time.Now()
			fn()
			return time.Since(start)
		}
		c.Slow(delay)
		var l *redlock.Lock
		require.Equal(t, 2*delay, took(func() { l = tryLock(t, c.Redlock, "a") }), "with the handshake")
		require.Equal(t, delay, took(func() { require.NoError(t, l.Extend(t.Context(), ttl)) }))
		require.Equal(t, delay, took(func() { require.NoError(t, l.Unlock(t.Context())) }))
		c.Slow(0)
		require.Zero(t, took(func() { l = tryLock(t, c.Redlock, "a") }))
		c.Slow(nodeTimeout + time.Millisecond)
		require.Equal(t, nodeTimeout, took(func() { refused(t, c.Redlock, "b", redlock.ErrNoQuorum) }))
		c.Recover()
		require.NoError(t, l.Unlock(t.Context()))
		c.AssertFree()
	})
}

// A busy machine may run no node for a second, which is longer than package redlock waits by
// default; and a test may want that default.
func TestNodeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t, 3)
		impatient := c.NewRedlock(redlock.WithNodeTimeout(250 * time.Millisecond))
		tryLock(t, c.Redlock, "a")
		tryLock(t, impatient, "b")
		c.Slow(time.Second)
		tryLock(t, c.Redlock, "c")
		refused(t, impatient, "d", redlock.ErrNoQuorum)
		c.Recover()
	})
}

func TestAssertFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := &recorder{TB: t}
		c := New(tb, 3)
		time.AfterFunc(4*time.Second, c.Take("a", 0))
		c.AssertFree()
		require.Empty(t, tb.errors)
		c.Take("b", 0)
		c.Take("a", 0)
		c.AssertFree()
		require.Equal(t, []string{`redlocktest: still locked on some node: ["a" "b"]`}, tb.errors)
		tb.finish()
	})
}

func TestLoseAKeptLock(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		c := New(t, 3, calm())
		l := tryLock(t, c.Redlock, "a")
		ctx := l.KeepAlive(t.Context())
		again := l.KeepAlive(t.Context())
		c.Lose(l)
		require.Equal(t, redlock.ErrLost, within(ctx, patience))
		require.Equal(t, redlock.ErrLost, within(again, patience))

		// Once more: nothing is left to lose, and what somebody else has got is theirs.
		release := c.Take("a", time.Minute)
		c.Lose(l)
		require.NotEmpty(t, c.Holder("a"))
		release()
	})
}

func TestLoseWithoutQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := &recorder{TB: t}
		c := New(tb, 3)
		l := tryLock(t, c.Redlock, "a")
		c.HangMajority()
		c.Lose(l)
		require.NoError(t, l.Err())
		require.Len(t, tb.errors, 1)
		require.Contains(t, tb.errors[0], "no quorum")
		tb.finish()
	})
}

// A lock with turns has a Token that no key has.
func TestLoseALockWithTurns(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		c := New(t, 3, calm(), redlock.WithTurn(10*time.Millisecond))
		l, err := c.Redlock.Lock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		c.Lose(l)
		require.Equal(t, redlock.ErrLost, l.Err())
		require.Empty(t, c.Held())
		c.AssertFree()
	})
}

func TestTake(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		c := New(t, 3, calm())
		release := c.Take("a", time.Minute)
		require.Equal(t, []string{"a"}, c.Held())
		require.NotEmpty(t, c.Holder("a"))
		refused(t, c.Redlock, "a", redlock.ErrTaken)
		tryLock(t, c.Redlock, "b")

		release()
		l := tryLock(t, c.Redlock, "a")
		release()
		require.NoError(t, l.Extend(t.Context(), ttl), "a release that comes again does no harm")

		c.Take("c", 0)
		inspection, err := c.Redlock.Inspect(t.Context(), "c")
		require.NoError(t, err)
		require.True(t, inspection.Held)
		require.Negative(t, inspection.TTL)
	})
}

// TestWaiterGetsWhatIsReleased also shows that ttls end by the bubble's clock.
func TestWaiterGetsWhatIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t, 3)
		release := c.Take("a", time.Hour)
		time.AfterFunc(time.Second, release)
		l, err := c.Redlock.Lock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))

		c.AssertFree()
		c.Take("a", time.Minute-time.Microsecond)
		time.Sleep(time.Minute - time.Millisecond)
		refused(t, c.Redlock, "a", redlock.ErrTaken)
		time.Sleep(time.Millisecond)
		tryLock(t, c.Redlock, "a")
	})
}

// TestTakeFromAHolder: it finds out by its next extension, or at its release.
func TestTakeFromAHolder(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		c := New(t, 3, calm())
		const ttl = 3 * time.Second
		err := c.Redlock.Do(t.Context(), []string{"a"}, ttl, func(ctx context.Context, _ *redlock.Lock) error {
			c.Take("a", time.Minute)
			require.Equal(t, redlock.ErrLost, within(ctx, patience))
			return nil
		})
		require.ErrorIs(t, err, redlock.ErrLost)
		require.NotErrorIs(t, err, redlock.ErrExpired)

		l := tryLock(t, c.Redlock, "b")
		c.Take("b", time.Minute)
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrLost)
		require.Equal(t, []string{"a", "b"}, c.Held())
	})
}
