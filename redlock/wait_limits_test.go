package redlock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// How often, how long and until when a call waits.

// runBothWays runs a test of calls that wait in line, and of calls that poll.
func runBothWays(t *testing.T, n int, fn func(t *testing.T, c *testcluster.Cluster, opts []redlock.Option)) {
	t.Helper()
	for name, opts := range map[string][]redlock.Option{"in line": nil, "polling": {redlock.WithPolling()}} {
		runInBubble(t, name, n, func(t *testing.T, c *testcluster.Cluster) { fn(t, c, opts) })
	}
}

// givesUp has a Lock end without the lock for a reason, and returns the error.
func givesUp(t *testing.T, reason error, r *redlock.Redlock, resources []string, opts ...redlock.Option) error {
	t.Helper()
	_, err := r.Lock(t.Context(), resources, ttl, opts...)
	require.ErrorIs(t, err, reason)
	return err
}

func TestRetryBackoff(t *testing.T) {
	exponential := func(attempt int) time.Duration { return 100 * time.Millisecond << (attempt - 1) }
	runBothWays(t, 1, func(t *testing.T, c *testcluster.Cluster, opts []redlock.Option) {
		require.NoError(t, c.Nodes[0].Set("a", "thief", 0)) // No expiry: there is nothing to wait for but the retry.
		var rec recorder
		r := newRedlock(t, c, append(opts, redlock.WithHook(rec.Hook),
			redlock.WithRetryCount(5), redlock.WithRetryBackoff(exponential), redlock.WithRetryJitter(0))...)
		start := time.Now()
		_ = givesUp(t, redlock.ErrTaken, r, []string{"a"})
		assert.Equal(t, 3100*time.Millisecond, time.Since(start))
		synctest.Wait()
		at := map[int64]bool{}
		for _, e := range rec.TakeOf(redlock.EventDecided) {
			at[e.Time.Sub(start).Milliseconds()] = true
		}
		assert.Equal(t, map[int64]bool{0: true, 100: true, 300: true, 700: true, 1500: true, 3100: true}, at)
	})
}

// As github.com/cenkalti/backoff's Stop does.
func TestRetryBackoffThatIsNegativeEndsTheWait(t *testing.T) {
	runBothWays(t, 1, func(t *testing.T, c *testcluster.Cluster, opts []redlock.Option) {
		require.NoError(t, c.Nodes[0].Set("a", "thief", 0))
		r := newRedlock(t, c, append(opts, redlock.WithRetryCount(-1), redlock.WithRetryJitter(0))...)
		stopAfter := func(retries int) redlock.Option {
			return redlock.WithRetryBackoff(func(attempt int) time.Duration {
				if attempt > retries {
					return -1
				}
				return time.Second
			})
		}
		for retries := range 3 {
			start := time.Now()
			err := givesUp(t, redlock.ErrTaken, r, []string{"a"}, stopAfter(retries))
			require.NotContains(t, err.Error(), "gave up", "its function has said so")
			assert.Equal(t, time.Duration(retries)*time.Second, time.Since(start))
		}
		// Behind another one that waits, it has not asked before.
		first := startLock(t, r, []string{"a"})
		waited := took(func() { _ = givesUp(t, redlock.ErrTaken, r, []string{"a"}, stopAfter(2)) })
		assert.InDelta(t, 2*time.Second, waited, float64(10*time.Millisecond))
		require.NoError(t, c.Nodes[0].Del("a"))
		require.NoError(t, first.got(t).Unlock(t.Context()))
	})
}

func TestRetriesThatAreUsedUpAreNamed(t *testing.T) {
	runBothWays(t, 3, func(t *testing.T, c *testcluster.Cluster, opts []redlock.Option) {
		lockElsewhere(t, c, "a", time.Hour)
		r := newRedlock(t, c, append(opts, redlock.WithRetryJitter(0))...)
		lock := func(ctx context.Context, opts ...redlock.Option) error {
			_, err := r.Lock(ctx, []string{"a"}, ttl, opts...)
			require.ErrorIs(t, err, redlock.ErrTaken)
			return err
		}
		const how = "; WithWait waits longer"
		require.ErrorContains(t, lock(t.Context()), "); gave up after 10 retries in 2s"+how)
		require.ErrorContains(t, lock(t.Context(), redlock.WithRetryCount(1)), "); gave up after 1 retry in 200ms"+how)
		for _, err := range []error{
			lock(within(t, time.Second)),
			lock(t.Context(), redlock.WithRetryIf(func(error) bool { return false })),
		} {
			require.NotContains(t, err.Error(), "gave up")
		}
	})
}

// WithWait limits the wait, and not the work.
func TestWaitIsLimitedByWithWait(t *testing.T) {
	for name, opts := range map[string][]redlock.Option{"in line": nil, "polling": {redlock.WithPolling()}} {
		runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newWarm(t, c, opts...)
			do := func(d time.Duration) (waited time.Duration, err error) {
				began := time.Now()
				err = r.Do(t.Context(), []string{"a"}, ttl, func(ctx context.Context, _ *redlock.Lock) error {
					waited = time.Since(began)
					time.Sleep(time.Minute)
					return ctx.Err()
				}, redlock.WithWait(d))
				if waited == 0 {
					waited = time.Since(began)
				}
				return waited, err
			}
			l := lockElsewhere(t, c, "a", time.Hour)
			waited, err := do(30 * time.Second)
			assert.Equal(t, 30*time.Second, waited)
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "waited for 30s; last attempt: taken")
			both := []redlock.Option{redlock.WithWait(time.Second), redlock.WithRetryCount(3)}
			err = givesUp(t, redlock.ErrTaken, r, []string{"a"}, both...)
			require.ErrorContains(t, err, "waited for 1s", "it goes before the count")
			_, err = r.Lock(within(t, time.Second), []string{"a"}, ttl, redlock.WithWait(2*time.Second))
			require.ErrorIs(t, err, context.DeadlineExceeded, "the caller's own")

			time.AfterFunc(1500*time.Millisecond, func() { assert.NoError(t, l.Unlock(context.Background())) })
			waited, err = do(2 * time.Second)
			require.NoError(t, err, "the work goes on for as long as it takes")
			assert.InDelta(t, 1600*time.Millisecond, waited, float64(200*time.Millisecond))
			requireReleased(t, c)

			require.NoError(t, c.First(2).Hang())
			err = givesUp(t, redlock.ErrNoQuorum, r, []string{"a"}, redlock.WithWait(5*time.Second))
			require.ErrorContains(t, err, "waited for 5s")
			require.NoError(t, c.First(2).Resume())
			time.Sleep(10 * time.Second)
		})
	}
}

func TestWithWaitIsForCallsThatWait(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithWait(3*time.Second))
		l := tryLock(t, r, []string{"a"}, time.Hour)
		err := refusal(t, redlock.ErrNotAcquired, r, []string{"b"}, ttl, redlock.WithWait(time.Second))
		require.EqualError(t, err, "redlock: WithWait is for Lock and Do: TryLock does not wait")
		err = givesUp(t, redlock.ErrNotAcquired, r, []string{"b"}, redlock.WithWait(-time.Second))
		require.ErrorContains(t, err, "wait -1s: must not be negative")

		require.ErrorContains(t, givesUp(t, redlock.ErrTaken, r, []string{"a"}), "waited for 3s")
		err = givesUp(t, redlock.ErrTaken, r, []string{"a"}, redlock.WithRetryCount(1))
		require.ErrorContains(t, err, "gave up after 1 retry")
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// However a wait ends, of a lock that others have all the time it says that they have it.
func TestAWaitForABusyLockEndsWithTaken(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
		var all sync.WaitGroup
		var failed atomic.Int64
		for i := range 4 {
			r := newRedlock(t, c)
			for j := range 4 {
				all.Go(func() {
					time.Sleep(time.Duration(i+4*j) * 170 * time.Microsecond)
					for range 30 {
						l, err := r.Lock(t.Context(), []string{"a"}, ttl, redlock.WithWait(2*time.Second))
						if err != nil {
							failed.Add(1)
							if !errors.Is(err, redlock.ErrTaken) {
								t.Error(err)
							}
							continue
						}
						time.Sleep(300 * time.Millisecond)
						assert.NoError(t, l.Unlock(t.Context()))
					}
				})
			}
		}
		all.Wait()
		assert.Greater(t, failed.Load(), int64(50))
	})
}

// What a call says as its wait ends is what the nodes have said last, though most of those who wait have asked once, as
// they came: that no quorum answers any more, or does again.
func TestAWaitEndsWithWhatTheNodesHaveSaidLast(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		holder, r := lockElsewhere(t, c, "a", time.Hour), newRedlock(t, c)
		wait := func(is error, during func() error) {
			t.Helper()
			var all sync.WaitGroup
			for i := range 16 {
				all.Go(func() {
					opts := []redlock.Option{redlock.WithWait(4 * time.Second)}
					if i%2 == 0 {
						opts = []redlock.Option{redlock.WithRetryCount(-1)}
					}
					_, err := r.Lock(within(t, 4*time.Second), []string{"a"}, ttl, opts...)
					assert.ErrorIs(t, err, is)
				})
			}
			time.Sleep(300 * time.Millisecond)
			require.NoError(t, during())
			all.Wait()
		}
		wait(redlock.ErrNoQuorum, c.First(2).Stop)
		wait(redlock.ErrTaken, func() error { return c.First(2).Restart(true) })
		assert.NoError(t, holder.Unlock(t.Context()))
	})
}

// A lock that another one of the same Redlock keeps out is mostly one that waits for itself.
func TestHolderOfTheSameRedlockIsNamed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r, other := newRedlock(t, c), newRedlock(t, c)
		const own = "a lock of this Redlock, in this process, holds it"
		l := waitLock(t, r, []string{"a", "b"}, time.Minute)
		require.ErrorContains(t, givesUp(t, redlock.ErrTaken, r, []string{"b"}), own)
		require.ErrorContains(t, givesUp(t, redlock.ErrTaken, r, []string{"b"}, redlock.WithWait(time.Second)), own)
		waitLock(t, other, []string{"c"}, time.Minute)
		err := givesUp(t, redlock.ErrTaken, other, []string{"b", "c"})
		require.NotContains(t, err.Error(), own, "it has one of the resources, but the holder that is named is another's")
		require.NoError(t, l.Unlock(t.Context()))
	})
}
