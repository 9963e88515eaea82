package redlock_test

import (
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
				r := newRedlock(t, c, append(opts, redlock.WithHook(rec.hook), redlock.WithRetryCount(5), redlock.WithRetryBackoff(exponential), redlock.WithRetryJitter(0))...)
				start := time.Now()
				_, err := r.Lock(t.Context(), []string{"a"}, ttl)
				require.ErrorIs(t, err, redlock.ErrTaken)
				assert.Equal(t, 3100*time.Millisecond, time.Since(start))
				time.Sleep(time.Second)
				var at []time.Duration
				for _, e := range rec.take() {
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

// A function of the user's that panics leaves nothing behind.
func TestABackoffThatPanicsIsNotCountedAsWaiting(t *testing.T) {
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
