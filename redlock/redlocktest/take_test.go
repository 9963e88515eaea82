package redlocktest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
)

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

func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t, 5)
		l := tryLock(t, c.Redlock, "a")
		ctx := l.KeepAlive(t.Context())
		time.Sleep(time.Minute)
		require.NoError(t, ctx.Err())
		c.Forget("a")
		start := time.Now()
		require.Empty(t, c.Held())
		require.NoError(t, l.Err(), "it has not found out yet")
		require.Equal(t, redlock.ErrLost, within(ctx, patience+ttl))
		require.LessOrEqual(t, time.Since(start), ttl/3)
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrLost)
		c.AssertFree()
	})
}
