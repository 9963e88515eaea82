package redlock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func TestReleasesAtTheSameTimeAreOne(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		first, worker := newRedlock(t, c), newRedlock(t, c)
		require.NoError(t, c.Slow(5*time.Millisecond, 5*time.Millisecond))
		warm(t, worker)
		l, err := first.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		time.Sleep(time.Second)
		var wg sync.WaitGroup
		start := time.Now()
		for range 10 {
			wg.Go(func() {
				err := worker.Release(context.Background(), []string{"a"}, l.Token())
				assert.Equal(t, 10*time.Millisecond, time.Since(start), "not before the result is there")
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		assert.Equal(t, int64(2), worker.Stats().Unlocked, "with that of warm")
	})
}

// The keys of what other processes have locked take a bounded amount of memory, however large
// they are and however long a node is down.
func TestReleasesOfLargeLocksTakeBoundedMemory(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		worker := newRedlock(t, c)
		require.NoError(t, c.Nodes[0].Stop())
		large := strings.Repeat("x", 500<<10)
		const most = 32 // What is kept for each counts as four times its name, and 64 MiB may be kept.
		before := heap()
		check := func(from int) {
			for i := range most + 10 {
				err := worker.Release(t.Context(), []string{strings.Clone(large)}, fmt.Sprintf("%032x", from+i))
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
			}
			assert.InDelta(t, most, worker.Stats().Nodes[0].PendingReleases, 1)
			assert.LessOrEqual(t, heap(), before+node.MaxForeign)
		}
		check(0)
		time.Sleep(redlock.UnknownLife + time.Second) // All that is kept is of no use any more.
		check(1000)
		time.Sleep(redlock.UnknownLife + time.Second)
		require.NoError(t, c.Nodes[0].Restart(true))
		time.Sleep(10 * time.Second)
		assert.Zero(t, worker.Stats().Nodes[0].PendingReleases)
	})
}
