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
	"github.com/seed6c881748/redlock/internal/releases"
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
		known, _ := redlock.ReleasedBy(worker).Size()
		assert.Zero(t, known)
	})
}

func TestReleasesThatMayBeRepeatedAreForgotten(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		worker := newRedlock(t, c)
		require.NoError(t, c.Stop())
		most := 0
		for i := range 200 {
			err := worker.Release(t.Context(), []string{"a"}, fmt.Sprintf("%032x", i))
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			known, _ := redlock.ReleasedBy(worker).Size()
			most = max(most, known)
			time.Sleep(redlock.UnknownLife / 50)
		}
		assert.LessOrEqual(t, most, 2*releases.MinSweep)
	})
}

// The keys of what other processes have locked take a bounded amount of memory, however large
// they are and however long the nodes are down.
func TestReleasesOfLargeLocksTakeBoundedMemory(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		worker := newRedlock(t, c)
		require.NoError(t, c.Nodes[0].Stop())
		large := strings.Repeat("x", 500<<10)
		release := func(i int) {
			err := worker.Release(t.Context(), []string{large}, fmt.Sprintf("%032x", i))
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
		}
		check := func() {
			known, size := redlock.ReleasedBy(worker).Size()
			assert.Greater(t, known, 20)
			assert.LessOrEqual(t, worker.Stats().Nodes[0].PendingReleases, node.MaxForeign/len(large))
			assert.LessOrEqual(t, size, node.MaxForeign)
			assert.LessOrEqual(t, known, node.MaxForeign/len(large))
		}
		for i := range rounds(100, 40) {
			release(i)
			release(i) // Repeated, it takes no more.
		}
		check()
		time.Sleep(redlock.UnknownLife + time.Second) // All that is kept is of no use any more.
		for i := range rounds(50, 35) {
			release(1000 + i)
		}
		check()
		time.Sleep(redlock.UnknownLife + time.Second)
		require.NoError(t, c.Nodes[0].Restart(true))
		time.Sleep(10 * time.Second)
		_ = worker.Release(t.Context(), []string{"a"}, fmt.Sprintf("%032x", 1))
		redlock.ReleasedBy(worker).Forget()
		_, size := redlock.ReleasedBy(worker).Size()
		assert.Zero(t, size)
		assert.Zero(t, worker.Stats().Nodes[0].PendingReleases)
	})
}
