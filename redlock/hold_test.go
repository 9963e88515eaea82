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

// kept locks "a" for ttl and keeps it.
func kept(t *testing.T, r *redlock.Redlock, ttl time.Duration, opts ...redlock.Option) (*redlock.Lock, context.Context) {
	t.Helper()
	l, err := r.TryLock(t.Context(), []string{"a"}, ttl, opts...)
	require.NoError(t, err)
	return l, l.KeepAlive(t.Context())
}

// requireEnded checks that ctx is done because of cause.
func requireEnded(t *testing.T, ctx context.Context, cause error) {
	t.Helper()
	synctest.Wait()
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.Equal(t, cause, context.Cause(ctx))
}

func TestHoldExtendsUntilUnlock(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, ctx := kept(t, r, 2*time.Second)
		for range 100 {
			time.Sleep(time.Second)
			require.NoError(t, ctx.Err())
			require.NoError(t, l.Err())
			require.Greater(t, time.Until(l.Until()), 2*time.Second*6/10)
			require.Equal(t, 5, holders(t, c, l))
		}
		s := r.Stats()
		assert.InDelta(t, 100*3/2, s.Extended, 12, "about every third of the ttl")
		assert.Equal(t, 1, s.Kept)
		require.NoError(t, l.Unlock(t.Context()))
		requireEnded(t, ctx, context.Canceled)
		requireReleased(t, c)
		time.Sleep(time.Hour)
		requireReleased(t, c)
		assert.Equal(t, s.Extended, r.Stats().Extended)
		assert.Zero(t, r.Stats().Kept)
	})
}

func TestHoldOfWhatHasEnded(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		lock := func() *redlock.Lock {
			l, err := r.TryLock(t.Context(), []string{"a"}, time.Second)
			require.NoError(t, err)
			return l
		}
		l := lock()
		require.NoError(t, l.Unlock(t.Context()))
		requireEnded(t, l.KeepAlive(t.Context()), redlock.ErrLost)

		l = lock()
		done, cancel := context.WithCancelCause(t.Context())
		cancel(assert.AnError)
		requireEnded(t, l.KeepAlive(done), assert.AnError)
		assert.Zero(t, r.Stats().Kept)
		time.Sleep(2 * time.Second)
		requireEnded(t, l.KeepAlive(t.Context()), redlock.ErrExpired)

		l = lock()
		require.NoError(t, c.Del("a"))
		require.ErrorIs(t, l.Extend(t.Context(), time.Second), redlock.ErrLost)
		requireEnded(t, l.KeepAlive(t.Context()), redlock.ErrLost)

		l = lock()
		require.NoError(t, r.Close(t.Context()))
		requireEnded(t, l.KeepAlive(t.Context()), redlock.ErrClosed)
	})
}

func TestHoldTwice(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Second)
		require.NoError(t, err)
		first, cancel := context.WithCancelCause(t.Context())
		a, b := l.KeepAlive(first), l.KeepAlive(t.Context())
		cancel(assert.AnError)
		requireEnded(t, a, assert.AnError)
		time.Sleep(time.Minute)
		require.NoError(t, b.Err(), "the other one still keeps it")
		assert.InDelta(t, 60*3, r.Stats().Extended, 15, "once for both")
		c3 := l.KeepAlive(t.Context())
		require.NoError(t, l.Unlock(t.Context()))
		requireEnded(t, b, context.Canceled)
		requireEnded(t, c3, context.Canceled)
	})
}

func TestHoldEndsOnlyItsExtensionsWithTheCallersContext(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, 10*time.Second)
		require.NoError(t, err)
		parent, cancel := context.WithCancel(t.Context())
		ctx := l.KeepAlive(parent)
		time.Sleep(time.Minute)
		cancel()
		requireEnded(t, ctx, context.Canceled)
		extended := r.Stats().Extended
		time.Sleep(5 * time.Second)
		require.NoError(t, l.Err(), "it is still held")
		assert.Equal(t, 3, holders(t, c, l))
		again := l.KeepAlive(t.Context())
		time.Sleep(time.Minute)
		require.NoError(t, again.Err())
		assert.Greater(t, r.Stats().Extended, extended)
		parent2, cancel2 := context.WithCancel(t.Context())
		_ = l.KeepAlive(parent2)
		require.NoError(t, l.Unlock(t.Context()))
		cancel2()
		requireReleased(t, c)
	})
}

func TestHoldIsEndedByCloseWhichWaitsForItsRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, ctx := kept(t, r, time.Minute)
		time.AfterFunc(5*time.Second, func() {
			<-ctx.Done()
			assert.Equal(t, redlock.ErrClosed, context.Cause(ctx))
			held := l.Err()
			time.Sleep(10 * time.Second) // Winds up its work.
			released := l.Unlock(context.WithoutCancel(ctx))
			if held != nil || released != nil {
				t.Error("it is never released by Close:", held, released)
			}
		})
		start := time.Now()
		deadline, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		require.NoError(t, r.Close(deadline))
		assert.Equal(t, 15*time.Second, time.Since(start))
		requireReleased(t, c)
	})
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) { // Nobody unlocks: until Until.
		r := newRedlock(t, c)
		l, ctx := kept(t, r, 10*time.Second)
		require.NoError(t, r.Close(context.Background()))
		requireEnded(t, ctx, redlock.ErrClosed)
		assert.Zero(t, time.Since(l.Until()))
	})
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) { // Its context ends first.
		r := newRedlock(t, c)
		_, _ = kept(t, r, time.Hour)
		deadline, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.Close(deadline), context.DeadlineExceeded)
	})
}

func TestHoldAtRiskIsAnEvent(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newRedlock(t, c, redlock.WithHook(rec.Hook))
		risks := func() (n int) {
			for _, e := range rec.Take() {
				if e.Kind == redlock.EventHoldAtRisk {
					n++
					require.ErrorIs(t, e.Err, redlock.ErrNoQuorum)
					assert.Equal(t, []string{"a"}, e.Resources)
					left := e.Until.Sub(e.Time)
					assert.Positive(t, left)
					assert.Less(t, left, 5*time.Second)
				}
			}
			return n
		}
		l, ctx := kept(t, r, 10*time.Second)
		time.Sleep(time.Minute)
		assert.Zero(t, risks())
		for range 2 {
			for _, n := range c.Nodes[:2] {
				require.NoError(t, n.SetError("LOADING x"))
			}
			time.Sleep(time.Until(l.Until().Add(-2 * time.Second)))
			assert.Equal(t, 1, risks())
			for _, n := range c.Nodes[:2] {
				require.NoError(t, n.SetError(""))
			}
			time.Sleep(time.Minute)
			require.NoError(t, ctx.Err(), "it was extended again in time")
			assert.Zero(t, risks())
		}
		require.NoError(t, l.Unlock(t.Context()))
	})
}

func TestHoldWithALargeDriftFactor(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, ctx := kept(t, r, 10*time.Second, redlock.WithDriftFactor(0.75))
		time.Sleep(time.Minute)
		require.NoError(t, context.Cause(ctx), "healthy nodes")
		assert.NotZero(t, r.Stats().Extended)
		_ = l.Unlock(t.Context())
	})
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		fails, holds := 0, rounds(50, 4)
		for range holds {
			l, ctx := kept(t, r, 3*time.Millisecond)
			time.Sleep(50 * time.Millisecond)
			if ctx.Err() != nil {
				fails++
			}
			_ = l.Unlock(t.Context())
			time.Sleep(10 * time.Millisecond)
		}
		assert.Zero(t, fails, "ttl 3ms, no latency: of %d", holds)
	})
}

// The extension that the release overtakes must not count the hold out.
func TestHoldHasCloseWaitForAnUnlockBesideAnExtension(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, _ := kept(t, r, 30*time.Second, redlock.WithNodeTimeout(5*time.Second))
		time.Sleep(time.Second)
		require.NoError(t, c.Slow(500*time.Millisecond, 500*time.Millisecond))
		go func() { _ = l.Extend(t.Context(), 30*time.Second) }()
		time.Sleep(500 * time.Millisecond)
		res := make(chan error, 1)
		go func() { res <- l.Unlock(t.Context()) }()
		synctest.Wait()
		start := time.Now()
		cl := r.Close(context.Background())
		t.Logf("Close %v after %v", cl, time.Since(start))
		require.NoError(t, <-res, "Close must wait for the release")
		requireReleased(t, c)
	})
}
