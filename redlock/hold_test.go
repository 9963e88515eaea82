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
	"github.com/seed6c881748/redlock/test/testkit"
)

// kept locks "a" for ttl and keeps it.
func kept(t *testing.T, r *redlock.Redlock, ttl time.Duration, opts ...redlock.Option) (*redlock.Lock, context.Context) {
	t.Helper()
	l := tryLock(t, r, []string{"a"}, ttl, opts...)
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
	withRedlock(t, 5, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l, ctx := kept(t, r, 2*time.Second)
		for range 40 {
			time.Sleep(time.Second)
			require.NoError(t, ctx.Err())
			require.NoError(t, l.Err())
			require.Greater(t, time.Until(l.Until()), 2*time.Second*6/10)
			require.Equal(t, 5, holders(t, c, l))
		}
		s := r.Stats()
		assert.InDelta(t, 40*3/2, s.Extended, 6, "about every third of the ttl")
		assert.Equal(t, 1, s.Kept)
		require.NoError(t, l.Unlock(t.Context()))
		requireEnded(t, ctx, context.Canceled)
		requireReleased(t, c)
		time.Sleep(time.Minute)
		requireReleased(t, c)
		assert.Equal(t, s.Extended, r.Stats().Extended)
		assert.Zero(t, r.Stats().Kept)
	})
}

func TestHoldOfWhatHasEnded(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := tryLock(t, r, []string{"a"}, time.Second)
		done, cancel := context.WithCancelCause(t.Context())
		cancel(assert.AnError)
		requireEnded(t, l.KeepAlive(done), assert.AnError)
		assert.Zero(t, r.Stats().Kept)
		time.Sleep(2 * time.Second)
		requireEnded(t, l.KeepAlive(t.Context()), redlock.ErrExpired)

		l = tryLock(t, r, []string{"a"}, time.Second)
		require.NoError(t, l.Unlock(t.Context()))
		requireEnded(t, l.KeepAlive(t.Context()), redlock.ErrLost)

		l = tryLock(t, r, []string{"a"}, time.Second)
		require.NoError(t, r.Close(t.Context()))
		requireEnded(t, l.KeepAlive(t.Context()), redlock.ErrClosed)
	})
}

func TestHoldEndsEachContextWithItsCallers(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := tryLock(t, r, []string{"a"}, 10*time.Second)
		first, cancelFirst := context.WithCancelCause(t.Context())
		second, cancelSecond := context.WithCancelCause(t.Context())
		a, b := l.KeepAlive(first), l.KeepAlive(second)
		cancelFirst(assert.AnError)
		requireEnded(t, a, assert.AnError)
		time.Sleep(time.Minute)
		require.NoError(t, b.Err(), "the other one still keeps it")
		extended := r.Stats().Extended
		assert.InDelta(t, 60*3/10, extended, 3, "once for both")
		cancelSecond(assert.AnError)
		requireEnded(t, b, assert.AnError)
		time.Sleep(5 * time.Second)
		require.NoError(t, l.Err(), "it is still held")
		assert.Equal(t, 3, holders(t, c, l))
		again, more := l.KeepAlive(t.Context()), l.KeepAlive(t.Context())
		time.Sleep(time.Minute)
		require.NoError(t, again.Err())
		assert.Greater(t, r.Stats().Extended, extended)
		require.NoError(t, l.Unlock(t.Context()))
		requireEnded(t, again, context.Canceled)
		requireEnded(t, more, context.Canceled)
		requireReleased(t, c)
	})
}

func TestHoldIsEndedByCloseWhichWaitsForItsRelease(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
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
		require.NoError(t, r.Close(within(t, 30*time.Second)))
		assert.Equal(t, 15*time.Second, time.Since(start))
		requireReleased(t, c)
	})
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) { // Nobody unlocks: until Until.
		l, ctx := kept(t, r, 10*time.Second)
		require.NoError(t, r.Close(context.Background()))
		requireEnded(t, ctx, redlock.ErrClosed)
		assert.Zero(t, time.Since(l.Until()))
	})
}

func TestHoldWithALargeDriftFactor(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		_, ctx := kept(t, r, 10*time.Second, redlock.WithDriftFactor(0.75))
		time.Sleep(time.Minute)
		require.NoError(t, context.Cause(ctx), "healthy nodes")
	})
}

func TestHoldEndsItsContextAtUntil(t *testing.T) {
	for name, fault := range map[string]func(c *testcluster.Cluster) error{
		"hung":       (*testcluster.Cluster).Hang,
		"black hole": func(c *testcluster.Cluster) error { c.BlackHole(true); return nil },
		"slow":       func(c *testcluster.Cluster) error { return c.Slow(10*time.Second, 10*time.Second) },
	} {
		runInBubble(t, name, 5, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			l, ctx := kept(t, r, 2*time.Second, redlock.WithNodeTimeout(time.Minute)) // An extension is on its way at the end.
			time.Sleep(3 * time.Second)
			require.NoError(t, fault(c.First(3)))
			<-ctx.Done()
			assert.Zero(t, time.Since(l.Until()), "neither earlier nor later")
			requireEnded(t, ctx, redlock.ErrExpired)
			require.ErrorIs(t, l.Err(), redlock.ErrExpired)
		})
	}
}

func TestHoldEndsItsContextByTheWallClockToo(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l, ctx := kept(t, r, time.Minute)
		time.Sleep(time.Second + 7*time.Millisecond)
		testkit.WallOffset(r).Store(int64(time.Hour)) // The machine slept.
		assert.LessOrEqual(t, took(func() { <-ctx.Done() }), 100*time.Millisecond)
		requireEnded(t, ctx, redlock.ErrExpired)
		require.ErrorIs(t, l.Err(), redlock.ErrExpired)
		require.ErrorIs(t, l.Extend(t.Context(), time.Minute), redlock.ErrExpired)
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrExpired, "though the keys were still there")
		testkit.WallOffset(r).Store(0)
		require.ErrorIs(t, l.Err(), redlock.ErrExpired, "it stays so")
	})
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l, ctx := kept(t, r, time.Minute)
		testkit.WallOffset(r).Store(int64(-time.Hour)) // It was set back: the other clock goes on.
		time.Sleep(10 * time.Minute)
		require.NoError(t, ctx.Err())
		require.NoError(t, c.Stop())
		<-ctx.Done()
		assert.Zero(t, time.Since(l.Until()))
	})
	withRedlock(t, 3, func(t *testing.T, _ *testcluster.Cluster, r *redlock.Redlock) {
		_, ctx := kept(t, r, time.Minute)
		testkit.WallOffset(r).Add(int64(time.Second)) // Not enough.
		time.Sleep(time.Minute)
		require.NoError(t, ctx.Err())
	})
}

// An Extend by a short ttl leaves Until where it was, or nearly so: the next extension is due before it, also if that
// is the first one of a hold.
func TestHoldBesideShortExtends(t *testing.T) {
	for _, short := range []time.Duration{time.Second, 6 * time.Second} {
		withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			l := tryLock(t, r, []string{"a"}, 30*time.Second)
			time.Sleep(25 * time.Second)
			require.NoError(t, l.Extend(t.Context(), short))
			ctx := l.KeepAlive(t.Context())
			time.Sleep(20 * time.Second)
			for range 100 {
				time.Sleep(3 * time.Second)
				require.NoError(t, l.Extend(t.Context(), short))
				require.NoError(t, ctx.Err(), "%v", context.Cause(ctx))
			}
		})
	}
}

func TestHoldWithMaxHold(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
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
		assert.Equal(t, 1, r.Stats().Kept, "Close waits for its release")
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, l.Err(), redlock.ErrExpired)

		l = tryLock(t, r, []string{"a"}, 10*time.Second, redlock.WithMaxHold(time.Second)) // Over before it is kept.
		time.Sleep(5 * time.Second)
		requireEnded(t, l.KeepAlive(t.Context()), redlock.ErrMaxHold)
	})
}

func TestHoldWithMinHold(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		start := time.Now()
		l, ctx := kept(t, r, 10*time.Second, redlock.WithMinHold(8*time.Second))
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(t.Context()))
		requireEnded(t, ctx, context.Canceled)
		require.ErrorIs(t, l.Err(), redlock.ErrLost)
		require.NoError(t, l.Unlock(t.Context()))
		synctest.Wait()
		assert.Equal(t, 3, holders(t, c, l))
		refused(t, redlock.ErrTaken, r, []string{"a"}, time.Second)
		time.Sleep(time.Until(start.Add(8*time.Second - time.Millisecond)))
		assert.Equal(t, 3, holders(t, c, l))
		time.Sleep(time.Millisecond)
		requireReleased(t, c)

		// A failed attempt leaves nothing, min hold or not.
		require.NoError(t, c.First(2).Set("a", "x", time.Second))
		refused(t, redlock.ErrTaken, r, []string{"a"}, 10*time.Second, redlock.WithMinHold(8*time.Second))
		time.Sleep(time.Second)
		requireReleased(t, c)
	})
}

// However long the nodes and the call took: the min hold is that of the caller, who cannot know when the attempt began.
func TestHoldWithMinHoldIsCountedFromTheReturn(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithTracer(testkit.Standstill(300*time.Millisecond)))
		warm(t, r)
		opt := redlock.WithMinHold(time.Second)
		for name, took := range map[string]func(ctx context.Context) (*redlock.Lock, error){
			"TryLock": func(ctx context.Context) (*redlock.Lock, error) {
				return r.TryLock(ctx, []string{"a"}, time.Minute, opt)
			},
			"Do": func(ctx context.Context) (l *redlock.Lock, err error) {
				err = r.Do(ctx, []string{"a"}, time.Minute, func(_ context.Context, own *redlock.Lock) error { l = own; return nil }, opt)
				return l, err
			},
		} {
			require.NoError(t, c.Slow(100*time.Millisecond, 100*time.Millisecond))
			l, err := took(t.Context())
			returned := time.Now()
			require.NoError(t, err, name)
			require.NoError(t, c.Slow(0, 0))
			if name == "Do" { // Its function was called before the release, which takes a round trip.
				returned = returned.Add(-200 * time.Millisecond)
			}
			require.NoError(t, l.Unlock(t.Context()))
			time.Sleep(time.Until(returned.Add(time.Second - time.Millisecond)))
			assert.Equal(t, 3, holders(t, c, l), name)
			time.Sleep(200 * time.Millisecond)
			requireReleased(t, c)
		}

		// One's own Do does not begin it anew.
		l := tryLock(t, r, []string{"a"}, time.Minute, opt)
		time.Sleep(900 * time.Millisecond)
		require.NoError(t, l.Do(t.Context(), func(context.Context, *redlock.Lock) error { return nil }))
		time.Sleep(100 * time.Millisecond)
		requireReleased(t, c)
	})
}

// A holder that dies at once, with a ttl that is no longer than the min hold, leaves the keys for as long, too.
func TestHoldWithMinHoldOutlivesItsHolder(t *testing.T) {
	const d = 2 * time.Second
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r, other := newRedlock(t, c), newRedlock(t, c)
		warm(t, r)
		require.NoError(t, c.Slow(100*time.Millisecond, 100*time.Millisecond))
		l, err := r.TryLock(t.Context(), []string{"a"}, d, redlock.WithMinHold(d))
		returned := time.Now()
		require.NoError(t, err)
		assert.GreaterOrEqual(t, l.Until().Sub(returned), d)
		require.NoError(t, c.Slow(0, 0))
		time.Sleep(d - time.Millisecond)
		refused(t, redlock.ErrTaken, other, []string{"a"}, d)
		time.Sleep(time.Second)
		requireReleased(t, c)

		// Where the ttl leaves time for an attempt, it is as ever.
		start := time.Now()
		l = tryLock(t, r, []string{"b"}, 3*time.Second, redlock.WithMinHold(d))
		assert.Equal(t, testkit.Validity(3*time.Second), l.Until().Sub(start))
		start = time.Now() // An attempt cannot take longer than the ttl, however patient it is.
		l = tryLock(t, r, []string{"c"}, d, redlock.WithMinHold(d), redlock.WithNodeTimeout(time.Hour))
		assert.Less(t, l.Until().Sub(start), 2*d)
	})
}

func TestHoldWithMinHoldForWhichNoTTLIsLongEnough(t *testing.T) {
	r := newOver(t, forbiddenNodes(t, 3), redlock.WithQuarantine(10*time.Second))
	_, err := r.TryLock(t.Context(), []string{"a"}, 10*time.Second, redlock.WithMinHold(10*time.Second))
	require.EqualError(t, err, "redlock: min hold 10s: the ttl of 10s is too short for it and an attempt: "+
		"redlock: ttl 10.860606061s: must not exceed the quarantine's maxTTL 10s")
	require.ErrorIs(t, err, redlock.ErrNotAcquired)
}

// WithMinHold is for a job that has run: one that has not is not kept from running elsewhere.
func TestHoldWithMinHoldLeavesNothingOfAJobThatHasNotBegun(t *testing.T) {
	withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		require.NoError(t, c.Slow(10*time.Millisecond, 10*time.Millisecond))
		err := r.Do(t.Context(), []string{"a"}, time.Minute, func(context.Context, *redlock.Lock) error {
			t.Error("called")
			return nil
		}, redlock.WithMaxHold(5*time.Millisecond), redlock.WithMinHold(30*time.Second))
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		require.ErrorIs(t, err, redlock.ErrMaxHold)
		time.Sleep(time.Second)
		requireReleased(t, c)
	})
}

func TestHoldWithStopTime(t *testing.T) {
	const stop = 3 * time.Second
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithStopTime(stop))
		l, ctx := kept(t, r, 10*time.Second)
		time.Sleep(time.Minute)
		require.NoError(t, ctx.Err(), "as long as the nodes answer")
		assert.InDelta(t, 60/2.2, r.Stats().Extended, 3, "about every third of what the stop time leaves")
		require.NoError(t, c.Stop())
		<-ctx.Done()
		until := l.Until()
		require.Equal(t, stop, time.Until(until), "neither earlier nor later")
		requireEnded(t, ctx, redlock.ErrStopTime)
		require.NoError(t, l.Err(), "the lock is held")
		require.NoError(t, c.Restart(true))
		time.Sleep(2 * time.Second)
		require.Equal(t, until, l.Until(), "it is not extended any more")
		requireEnded(t, l.KeepAlive(t.Context()), redlock.ErrStopTime)
		require.NoError(t, l.Extend(t.Context(), 10*time.Second), "but by hand")
		requireEnded(t, l.KeepAlive(t.Context()), redlock.ErrStopTime)
		require.NoError(t, l.Unlock(t.Context()))
		requireReleased(t, c)
		assert.Equal(t, redlock.HoldsEnded{StopTime: 1}, r.Stats().HoldsEnded)
	})
}

func TestHoldThatBeginsAfterItsStopTimeIsDone(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithStopTime(5*time.Second))
		l := tryLock(t, r, []string{"a"}, 10*time.Second)
		time.Sleep(time.Until(l.Until().Add(-5 * time.Second)))
		require.ErrorIs(t, context.Cause(l.KeepAlive(t.Context())), redlock.ErrStopTime, "from the start")
		require.NoError(t, l.Extend(t.Context(), 10*time.Second))
		require.NoError(t, l.KeepAlive(t.Context()).Err(), "it had not begun")
		require.NoError(t, l.Unlock(t.Context()))

		l = tryLock(t, r, []string{"a"}, 10*time.Second)
		time.Sleep(6 * time.Second)
		err := l.Do(t.Context(), func(context.Context, *redlock.Lock) error { t.Error("called"); return nil })
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		require.ErrorIs(t, err, redlock.ErrStopTime)
		requireReleased(t, c)
	})
}

// Contexts that have ended are forgotten, long before the next extension: a service that holds a lock for hours may call
// KeepAlive with that of each request.
func TestHoldForgetsContextsThatHaveEnded(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, _ *testcluster.Cluster, r *redlock.Redlock) {
		l := tryLock(t, r, []string{"a"}, time.Hour)
		for range 10_000 {
			ctx, cancel := context.WithCancel(t.Context())
			l.KeepAlive(ctx)
			cancel()
		}
		assert.LessOrEqual(t, redlock.Kept(l), 2)
	})
}
