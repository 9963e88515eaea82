package redlock_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func TestDo(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		do := func(fn func(ctx context.Context, l *redlock.Lock) error, opts ...redlock.Option) error {
			return r.Do(t.Context(), []string{"a"}, time.Second, fn, opts...)
		}
		var inside *redlock.Lock
		require.NoError(t, do(func(ctx context.Context, l *redlock.Lock) error {
			inside = l
			time.Sleep(time.Minute)
			return ctx.Err()
		}))
		require.ErrorIs(t, inside.Err(), redlock.ErrLost)
		requireReleased(t, c)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = do(func(context.Context, *redlock.Lock) error { runtime.Goexit(); return nil })
		}()
		<-done
		requireReleased(t, c)
		assert.Zero(t, r.Stats().Kept)
		require.NoError(t, do(func(ctx context.Context, l *redlock.Lock) error { return l.Unlock(ctx) }))
		require.NoError(t, do(func(ctx context.Context, _ *redlock.Lock) error { <-ctx.Done(); return nil }, redlock.WithMaxHold(3*time.Second)))
	})
}

// Close waits for Do, and not only for the release that its function may have made.
func TestDoAndClose(t *testing.T) {
	for _, unlocks := range []bool{false, true} {
		withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			other := tryLock(t, r, []string{"b"}, 10*time.Second)
			work := func(ctx context.Context, l *redlock.Lock) error {
				<-ctx.Done()
				if unlocks {
					require.NoError(t, l.Unlock(ctx))
				}
				time.Sleep(5 * time.Second)
				return ctx.Err()
			}
			result := meanwhile(func() error { return r.Do(context.Background(), []string{"a"}, time.Minute, work) })
			synctest.Wait()
			assert.Equal(t, 5*time.Second, took(func() { require.NoError(t, r.Close(t.Context())) }))
			err := <-result
			require.ErrorIs(t, err, redlock.ErrClosed)
			require.ErrorIs(t, err, context.Canceled)
			for _, err := range []error{r.Do(t.Context(), []string{"a"}, time.Minute, work), other.Do(t.Context(), work)} {
				require.ErrorIs(t, err, redlock.ErrNotAcquired)
				require.ErrorIs(t, err, redlock.ErrClosed)
			}
			time.Sleep(10 * time.Second) // The keys of the other one end.
			requireReleased(t, c)
		})
	}
}

// A nosyError looks at the lock when it is compared, as an error type of the user's may do.
type nosyError struct{ lock *redlock.Lock }

func (nosyError) Error() string { return "nosy" }

func (e nosyError) Is(error) bool {
	_ = e.lock.Err()
	return false
}

// What Do returns besides the error of its function, or instead of it.
func TestDoReports(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		do := func(fn func(ctx context.Context, l *redlock.Lock) error, opts ...redlock.Option) error {
			return r.Do(t.Context(), []string{"a"}, 10*time.Second, fn, opts...)
		}
		err := do(func(ctx context.Context, l *redlock.Lock) error {
			<-ctx.Done()
			time.Sleep(20 * time.Second)
			return nosyError{l}
		}, redlock.WithMaxHold(3*time.Second))
		require.ErrorIs(t, err, redlock.ErrExpired)
		require.ErrorIs(t, err, redlock.ErrMaxHold, "fn failed after WithMaxHold ended its context")
		require.ErrorContains(t, err, "nosy")

		for _, ends := range []error{nil, assert.AnError} {
			err = do(func(ctx context.Context, _ *redlock.Lock) error {
				require.NoError(t, c.Stop())
				<-ctx.Done()
				require.NoError(t, c.Restart(true))
				time.Sleep(2 * time.Second)
				return ends
			}, redlock.WithStopTime(3*time.Second))
			require.ErrorIs(t, err, ends)
			require.NotErrorIs(t, err, redlock.ErrLost, "it was held to the end")
			assert.Equal(t, ends != nil, errors.Is(err, redlock.ErrStopTime), "as the reason of the failure")
		}

		err = do(func(ctx context.Context, l *redlock.Lock) error {
			require.NoError(t, c.Stop())
			time.Sleep(time.Second)
			require.ErrorIs(t, l.Unlock(ctx), redlock.ErrNoQuorum)
			time.Sleep(2 * time.Minute)
			require.NoError(t, c.Restart(true))
			time.Sleep(5 * time.Second)
			return nil
		})
		require.NoError(t, err, "it was held until the release began that its function has made")

		_ = do(func(ctx context.Context, _ *redlock.Lock) error {
			err = r.Do(ctx, []string{"inner"}, time.Minute, func(ctx context.Context, l *redlock.Lock) error {
				require.NoError(t, c.Del("a"))
				<-ctx.Done()
				return l.Err()
			})
			return nil
		})
		require.NoError(t, err, "the inner lock was never lost")
	})
}

// Whoever has begun the release that shows it, another Do or the function: a lock that was lost is an error.
func TestDoReportsALossThatAnotherReleaseHasFound(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := tryLock(t, r, []string{"a"}, 10*time.Second)
		result := meanwhile(func() error {
			return l.Do(t.Context(), func(ctx context.Context, _ *redlock.Lock) error { <-ctx.Done(); return nil })
		})
		synctest.Wait()
		require.NoError(t, c.Del("a"))
		err := l.Do(t.Context(), func(context.Context, *redlock.Lock) error { return nil })
		require.ErrorIs(t, err, redlock.ErrLost)
		require.Len(t, votesOf(t, err), 3)
		require.ErrorIs(t, <-result, redlock.ErrLost)
	})
}

func TestDoOfALock(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		not := func(context.Context, *redlock.Lock) error { t.Error("called"); return nil }
		l := tryLock(t, r, []string{"a"}, time.Second)
		for want, err := range map[error]error{
			redlock.ErrNilFunc: l.Do(t.Context(), nil), redlock.ErrNilContext: l.Do(nil, not), redlock.ErrNilLock: (*redlock.Lock)(nil).Do(t.Context(), not), //nolint:staticcheck // nil is what it is about.
		} {
			require.ErrorIs(t, err, want)
			require.ErrorIs(t, err, redlock.ErrNotAcquired)
		}
		require.NoError(t, l.Err(), "a wrong argument releases nothing")
		require.Equal(t, assert.AnError, l.Do(t.Context(), func(ctx context.Context, given *redlock.Lock) error {
			time.Sleep(time.Minute)
			assert.Same(t, l, given)
			assert.NoError(t, ctx.Err())
			return assert.AnError
		}))
		requireReleased(t, c)
		err := l.Do(t.Context(), not)
		require.ErrorIs(t, err, redlock.ErrNotAcquired, "it was released")
		require.ErrorIs(t, err, redlock.ErrLost)

		err = tryLock(t, r, []string{"a"}, time.Second).Do(cancelled(t), not)
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		require.ErrorIs(t, err, context.Canceled)
		requireReleased(t, c)
	})
}

// Whoever took the lock may have worked under it already.
func TestDoOfALockLeavesItsMinHoldThoughItCallsNothing(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := tryLock(t, r, []string{"a"}, time.Second, redlock.WithMinHold(time.Second))
		err := l.Do(cancelled(t), func(context.Context, *redlock.Lock) error { return nil })
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		refused(t, redlock.ErrTaken, r, []string{"a"}, time.Second)
	})
}

// Work that ends while an extension is under way has lost nothing, whatever the nodes say of that extension.
func TestDoThatEndsDuringAnExtensionTellsOfNoLoss(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var log strings.Builder
		hook := redlock.SlogHook(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
		r := newRedlock(t, c, redlock.WithHook(hook))
		for i, n := range c.Nodes {
			d := time.Duration(i+1) * 10 * time.Millisecond
			require.NoError(t, n.Slow(d, d))
		}
		for work := 570 * time.Millisecond; work < 750*time.Millisecond; work += 3 * time.Millisecond {
			err := r.Do(t.Context(), []string{"a"}, 2*time.Second, func(context.Context, *redlock.Lock) error {
				time.Sleep(work)
				return nil
			})
			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		s := r.Stats()
		assert.Zero(t, s.Lost+s.NoQuorum)
		assert.Positive(t, s.Extended)
		assert.Empty(t, log.String())
		assert.Empty(t, r.RecentEvents()[3:], "but that nodes are up")

		l := tryLock(t, r, []string{"a"}, ttl) // An Extend of one's own hears of it. Nothing was lost, either.
		failed := meanwhile(func() error { return l.Extend(context.Background(), time.Minute) })
		time.Sleep(15 * time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.ErrorIs(t, <-failed, redlock.ErrLost)
		assert.Zero(t, r.Stats().Lost)
	})
}

// A job that has failed may be tried again at once, if it says so.
func TestDoGivesBackTheMinHoldOfAJobThatFailed(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		opts := []redlock.Option{redlock.WithMinHold(30 * time.Second), redlock.WithReleaseOnError()}
		do := func(fn func() error, opts ...redlock.Option) error {
			return r.Do(t.Context(), []string{"a"}, time.Minute, func(context.Context, *redlock.Lock) error { return fn() }, opts...)
		}
		fails := func() error { return assert.AnError }
		require.ErrorIs(t, do(fails, opts...), assert.AnError)
		requireReleased(t, c)
		require.PanicsWithValue(t, "boom", func() { _ = do(func() error { panic("boom") }, opts...) })
		requireReleased(t, c)
		l := tryLock(t, r, []string{"a"}, time.Minute, opts...)
		require.ErrorIs(t, l.Do(t.Context(), func(context.Context, *redlock.Lock) error { return fails() }), assert.AnError)
		requireReleased(t, c)

		for _, c := range []struct {
			fn   func() error
			opts []redlock.Option
		}{{func() error { return nil }, opts}, {fails, opts[:1]}} {
			_ = do(c.fn, c.opts...)
			refused(t, redlock.ErrTaken, r, []string{"a"}, time.Second)
			time.Sleep(31 * time.Second)
		}
		requireReleased(t, c)
	})
}

func TestDoThatWasUnlockedKeepsItsMinHoldThoughItFails(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		err := r.Do(t.Context(), []string{"a"}, time.Minute, func(ctx context.Context, l *redlock.Lock) error {
			time.Sleep(50 * time.Millisecond)
			require.NoError(t, c.Stop())
			require.ErrorIs(t, l.Unlock(ctx), redlock.ErrNoQuorum)
			require.NoError(t, c.Restart(true))
			return assert.AnError
		}, redlock.WithMinHold(30*time.Second), redlock.WithReleaseOnError())
		require.ErrorIs(t, err, assert.AnError)
		time.Sleep(5 * time.Second)
		for _, n := range c.Nodes {
			assert.Contains(t, keys(t, n), "a")
		}
		time.Sleep(time.Minute)
		requireReleased(t, c)
	})
}
