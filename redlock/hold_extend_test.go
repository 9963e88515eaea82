package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/testkit"
	"github.com/seed6c881748/redlock/redlock"
)

// A failed extension is repeated soon, not a third of the ttl later.
func TestHoldRepeatsAFailedExtensionSoon(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, ctx := kept(t, r, 10*time.Second)
		time.Sleep(2500 * time.Millisecond)
		require.NoError(t, c.SetError("LOADING x"))
		time.Sleep(6 * time.Second)
		require.NoError(t, c.SetError(""))
		time.Sleep(time.Minute)
		require.NoError(t, ctx.Err())
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// Extensions that are refused at once are tried again soon, not when the next one
// would have been due.
func TestHoldWaitsNoWholePaceAfterAFailedExtension(t *testing.T) {
	const ttl = 3 * time.Second
	validity := redlock.Validity(ttl, redlock.DefaultDriftFactor)
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		start := time.Now()
		l, ctx := kept(t, r, ttl)
		require.NoError(t, c.SetError("BUSY a script runs"))
		time.Sleep(validity / 2)
		failed := r.Stats().NoQuorum
		assert.GreaterOrEqual(t, failed, int64(3), "a sixth of the validity has room for three")
		require.NoError(t, c.SetError(""))
		time.Sleep(validity/20 + time.Millisecond)
		require.EqualValues(t, 1, r.Stats().Extended)
		time.Sleep(time.Until(start.Add(validity + time.Millisecond)))
		require.NoError(t, ctx.Err())
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// The first extension of a hold meets nodes that hang for a while. It gives up early
// enough for others, and those come soon after another: the lock is not lost.
func TestHoldHasTimeForFurtherExtensions(t *testing.T) {
	const ttl = 600 * time.Millisecond
	validity := redlock.Validity(ttl, redlock.DefaultDriftFactor)
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithNodeTimeout(10*time.Second))
		warm(t, r)
		start := time.Now()
		l, ctx := kept(t, r, ttl)
		require.NoError(t, c.Hang())
		time.Sleep(validity * 7 / 10) // From a third on, an extension waits for a third.
		require.NoError(t, c.Resume())
		time.Sleep(time.Until(start.Add(validity + time.Millisecond)))
		require.NoError(t, ctx.Err())
		require.EqualValues(t, 1, r.Stats().NoQuorum, "the extension that waited for a third")
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// A jump that leaves a part of the validity brings the next extension forward;
// slewing does not.
func TestHoldExtendsEarlierAfterAJumpOfTheWallClock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, ctx := kept(t, r, 30*time.Second)
		time.Sleep(4 * time.Second) // The next extension is due after 8.9 s at the earliest.
		extended := r.Stats().Extended
		for range 40 { // 500 ppm, and more.
			testkit.WallOffset(r).Add(int64(2 * time.Millisecond))
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, extended, r.Stats().Extended)
		testkit.WallOffset(r).Add(int64(15 * time.Second))
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, extended+1, r.Stats().Extended)
		time.Sleep(time.Minute)
		require.NoError(t, ctx.Err())
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// An Extend by a short ttl leaves Until where it was, or nearly so: the next extension is due before it.
func TestHoldAfterAShortExtend(t *testing.T) {
	for _, short := range []time.Duration{time.Second, 6 * time.Second} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			l, err := r.TryLock(t.Context(), []string{"a"}, 30*time.Second)
			require.NoError(t, err)
			time.Sleep(25 * time.Second)
			require.NoError(t, l.Extend(t.Context(), short))
			ctx := l.KeepAlive(t.Context())
			time.Sleep(20 * time.Second)
			require.NoError(t, ctx.Err(), "%v", context.Cause(ctx))
		})
	}
}

// The same while KeepAlive goes on.
func TestHoldBesideShortExtends(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, 30*time.Second)
		require.NoError(t, err)
		ctx := l.KeepAlive(t.Context())
		for range 100 {
			time.Sleep(3 * time.Second)
			require.NoError(t, l.Extend(t.Context(), time.Second))
			require.NoError(t, ctx.Err(), "%v", context.Cause(ctx))
		}
	})
}
