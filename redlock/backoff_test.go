package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func TestRetryBackoff(t *testing.T) {
	exponential := func(attempt int) time.Duration { return 100 * time.Millisecond << (attempt - 1) }
	for name, opts := range map[string][]redlock.Option{"in line": nil, "polling": {redlock.WithPolling()}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
				require.NoError(t, c.Nodes[0].Set("a", "thief", 0)) // No expiry: there is nothing to wait for but the retry.
				var rec recorder
				r := newRedlock(t, c, append(opts, redlock.WithHook(rec.Hook), redlock.WithRetryCount(5), redlock.WithRetryBackoff(exponential), redlock.WithRetryJitter(0))...)
				start := time.Now()
				_, err := r.Lock(t.Context(), []string{"a"}, ttl)
				require.ErrorIs(t, err, redlock.ErrTaken)
				assert.Equal(t, 3100*time.Millisecond, time.Since(start))
				time.Sleep(time.Second)
				var at []time.Duration
				for _, e := range rec.Take() {
					if e.Kind == redlock.EventDecided && e.Time.After(start) {
						at = append(at, e.Time.Sub(start))
					}
				}
				ms := time.Millisecond
				assert.Equal(t, []time.Duration{100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms}, at)
			})
		})
	}
}

// As github.com/cenkalti/backoff's Stop does.
func TestRetryBackoffThatIsNegativeEndsTheWait(t *testing.T) {
	for name, opts := range map[string][]redlock.Option{"in line": nil, "polling": {redlock.WithPolling()}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
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
					_, err := r.Lock(t.Context(), []string{"a"}, ttl, stopAfter(retries))
					require.ErrorIs(t, err, redlock.ErrTaken)
					require.NotContains(t, err.Error(), "gave up", "its function has said so")
					assert.Equal(t, time.Duration(retries)*time.Second, time.Since(start))
				}
				// Behind another one that waits, it has not asked before.
				first := startLock(t, r, t.Context(), []string{"a"})
				for retries := range 3 {
					start := time.Now()
					_, err := r.Lock(t.Context(), []string{"a"}, ttl, stopAfter(retries))
					require.ErrorIs(t, err, redlock.ErrTaken)
					assert.InDelta(t, time.Duration(retries)*time.Second, time.Since(start), float64(10*time.Millisecond))
				}
				require.NoError(t, c.Nodes[0].Del("a"))
				require.NoError(t, first.got(t).Unlock(t.Context()))
			})
		})
	}
}

func TestRetriesThatAreUsedUpAreNamed(t *testing.T) {
	for name, opts := range map[string][]redlock.Option{"in line": nil, "polling": {redlock.WithPolling()}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				_, err := newRedlock(t, c).TryLock(t.Context(), []string{"a"}, time.Hour)
				require.NoError(t, err)
				r := newRedlock(t, c, append(opts, redlock.WithRetryJitter(0))...)
				lock := func(ctx context.Context, opts ...redlock.Option) error {
					_, err := r.Lock(ctx, []string{"a"}, ttl, opts...)
					require.ErrorIs(t, err, redlock.ErrTaken)
					return err
				}
				const how = "; WithRetryCount(-1) waits until the context ends"
				require.ErrorContains(t, lock(t.Context()), "); gave up after 10 retries in 2s"+how)
				require.ErrorContains(t, lock(t.Context(), redlock.WithRetryCount(1)), "); gave up after 1 retry in 200ms"+how)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				for _, err := range []error{
					lock(ctx),
					lock(t.Context(), redlock.WithRetryCount(0)),
					lock(t.Context(), redlock.WithRetryIf(func(error) bool { return false })),
				} {
					require.NotContains(t, err.Error(), "gave up")
				}
			})
		})
	}
}

// A function of the user's that panics leaves nothing behind.
func TestRetryBackoffThatPanicsIsNotCountedAsWaiting(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		for _, opts := range [][]redlock.Option{{redlock.WithPolling()}, nil} {
			opts = append(opts, redlock.WithRetryBackoff(func(int) time.Duration { panic("a bug in the caller") }))
			require.Panics(t, func() { _, _ = r.Lock(t.Context(), []string{"a"}, ttl, opts...) })
			require.Zero(t, r.Stats().Waiting)
		}
		require.NoError(t, l.Unlock(t.Context()))
	})
}
