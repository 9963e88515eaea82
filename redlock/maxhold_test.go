package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func TestHoldWithMaxHold(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		start := time.Now()
		l, ctx := kept(t, r, 10*time.Second, redlock.WithMaxHold(25*time.Second))
		<-ctx.Done()
		assert.Equal(t, 25*time.Second, time.Since(start))
		requireEnded(t, ctx, redlock.ErrMaxHold)
		require.NoError(t, l.Err(), "time to bring the work to an end")
		requireEnded(t, l.KeepAlive(t.Context()), redlock.ErrMaxHold)
		require.NoError(t, l.Unlock(t.Context()))

		l, ctx = kept(t, r, 10*time.Second, redlock.WithMaxHold(time.Second)) // Shorter than the ttl.
		<-ctx.Done()
		requireEnded(t, ctx, redlock.ErrMaxHold)
		assert.Equal(t, 1, r.Stats().Kept, "Close waits for its release")
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, l.Err(), redlock.ErrExpired)
		assert.Zero(t, r.Stats().Kept)
	})
}

func TestHoldAfterMaxHoldIsDone(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, 10*time.Second, redlock.WithMaxHold(time.Second))
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		until := l.Until()
		ctx := l.KeepAlive(t.Context())
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrMaxHold, "done from the start")
		synctest.Wait()
		assert.Equal(t, until, l.Until(), "extended after max hold")
	})
}

func TestHoldWithMaxHoldMovesUntilNoMore(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithNodeTimeout(time.Second))
		l, ctx := kept(t, r, 10*time.Second, redlock.WithMaxHold(3500*time.Millisecond))
		require.NoError(t, c.Slow(400*time.Millisecond, 400*time.Millisecond))
		<-ctx.Done()
		until := l.Until()
		time.Sleep(2 * time.Second)
		assert.Equal(t, until, l.Until(), "not extended any more after ErrMaxHold")
		require.NoError(t, c.Slow(0, 0))
		_ = l.Unlock(t.Context())
	})
}
