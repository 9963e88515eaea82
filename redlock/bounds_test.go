package redlock_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// many returns n resources with names of the given length.
func many(n, length int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = strings.Repeat("x", max(0, length-6)) + fmt.Sprintf("%0*d", min(length, 6), i)
	}
	return s
}

func TestLockResourcesAreBounded(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithPrefix("p:"))
		for want, resources := range map[string][]string{
			"redlock: 4097 resources: at most 4096 can be locked together":                      many(redlock.MaxResources+1, 4),
			"redlock: 100000 resources: at most 4096 can be locked together":                    many(100_000, 6),
			"redlock: the keys of 2 resources have 600004 bytes: at most 524288 are allowed":    many(2, 300_000),
			"redlock: the keys of 4096 resources have 528384 bytes: at most 524288 are allowed": many(redlock.MaxResources, 127),
			"redlock: the keys of 1 resources have 524289 bytes: at most 524288 are allowed":    many(1, redlock.MaxKeyBytes-1),
			"redlock: the keys of 1 resources have 10000002 bytes: at most 524288 are allowed":  many(1, 10_000_000),
		} {
			_, err := r.TryLock(t.Context(), resources, ttl)
			require.EqualError(t, err, want)
		}
		assert.Zero(t, r.Stats().Nodes[0].Connects, "before any I/O")
		for _, resources := range [][]string{
			append(many(redlock.MaxResources, 8), many(redlock.MaxResources, 8)...), // Each counts once.
			many(redlock.MaxResources, 126),
			many(1, redlock.MaxKeyBytes-2),
		} {
			l, err := r.TryLock(t.Context(), resources, ttl, redlock.WithNodeTimeout(time.Minute))
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
		}
	})
}

// The largest locks, with somebody in line for every resource of theirs: no answer of a
// node and no message is too long for the connections.
func TestLockOfTheLargestSizeGetsNoReplyThatIsTooLong(t *testing.T) {
	for name, k := range map[string]struct {
		resources []string
		opts      []redlock.Option
	}{
		"with fencing":         {many(redlock.MaxResources, 8), []redlock.Option{redlock.WithFencing()}},
		"with a long prefix":   {many(redlock.MaxResources, 5), []redlock.Option{redlock.WithPrefix(strings.Repeat("p", 123))}},
		"one with a long name": {many(1, redlock.MaxKeyBytes), nil},
		"a prefix as long":     {many(1, 8), []redlock.Option{redlock.WithPrefix(strings.Repeat("p", redlock.MaxKeyBytes-8))}},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name == "with a long prefix" {
				t.Skip("takes as long as the one with fencing")
			}
			inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
				opts := append(k.opts, redlock.WithNodeTimeout(10*time.Second))
				holder, waiter := newRedlock(t, c, opts...), newRedlock(t, c, opts...)
				l, err := holder.TryLock(t.Context(), k.resources, time.Hour)
				require.NoError(t, err)
				done := make(chan error, 1)
				go func() {
					next, failed := waiter.Lock(t.Context(), k.resources, time.Hour, redlock.WithRetryDelay(time.Minute))
					if failed == nil {
						failed = next.Unlock(context.Background())
					}
					done <- failed
				}()
				time.Sleep(3 * time.Second)
				synctest.Wait()
				before := connects(holder) + connects(waiter)
				start := time.Now()
				require.NoError(t, l.Unlock(t.Context()))
				require.NoError(t, <-done)
				assert.Less(t, time.Since(start), 10*time.Second, "it was told")
				assert.Equal(t, before, connects(holder)+connects(waiter), "no connection broke")
				requireReleased(t, c)
			})
		})
	}
}

// The releases of the largest locks can be owed.
func TestUnlockOfTheLargestLocksIsOwed(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		var locks []*redlock.Lock
		for _, initial := range []string{"a", "b"} {
			resources := many(redlock.MaxResources, 8)
			for i := range resources {
				resources[i] = initial + resources[i]
			}
			l, err := r.TryLock(t.Context(), resources, time.Hour, redlock.WithNodeTimeout(10*time.Second))
			require.NoError(t, err)
			locks = append(locks, l)
		}
		synctest.Wait()
		require.NoError(t, c.Hang())
		for _, l := range locks {
			require.Error(t, l.Unlock(t.Context()))
		}
		var longest atomic.Int64
		for _, n := range c.Nodes {
			n.Proxy().Kill()
			require.NoError(t, n.OnCommand(func(_ string, args []string) {
				for seen := longest.Load(); int64(len(args)) > seen && !longest.CompareAndSwap(seen, int64(len(args))); {
					seen = longest.Load()
				}
			}))
			require.NoError(t, n.Resume())
		}
		time.Sleep(30 * time.Second)
		assert.Less(t, longest.Load(), int64(3*redlock.MaxResources+10), "one at a time")
		assert.Greater(t, longest.Load(), int64(redlock.MaxResources))
		for i, n := range r.Stats().Nodes {
			require.True(t, n.Up, n.Err)
			require.Zero(t, n.PendingReleases)
			require.Empty(t, keys(t, c.Nodes[i]))
		}
	})
}
