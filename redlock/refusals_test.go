package redlock_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A lock request that the server has refused has left nothing, so that there is
// nothing to release, to repeat, or to owe.
func TestUnlockHasNothingToDoAfterARefusal(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		require.NoError(t, c.SetError("MISCONF x"))
		for range 100 {
			_, err := r.TryLock(t.Context(), []string{"a"}, time.Hour)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
		}
		synctest.Wait()
		commands := countCommands(t, "", c.Nodes...)
		for _, n := range r.Stats().Nodes {
			assert.Zero(t, n.Backlog+n.PendingReleases)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Zero(t, commands.Load())
	})
}

// Behind another error, such as a proxy's, it may have been carried out.
func TestUnlockFollowsAnErrorOfUnknownOrigin(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		require.NoError(t, c.Nodes[0].SetError("ERR upstream timeout"))
		_, err := r.TryLock(t.Context(), []string{"a"}, time.Hour)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		synctest.Wait()
		assert.Equal(t, 1, r.Stats().Nodes[0].PendingReleases, "its release is to be repeated")
		require.NoError(t, c.Nodes[0].SetError(""))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, r.Stats().Nodes[0].PendingReleases)
	})
}

func TestUnlockReckonsTheEndOfALongTTLRight(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, 20*time.Hour)
		require.NoError(t, err)
		require.NoError(t, c.Nodes[0].SetError("MISCONF"))
		require.Error(t, l.Unlock(t.Context()))
		time.Sleep(21 * time.Hour)
		synctest.Wait()
		assert.Zero(t, r.Stats().Nodes[0].PendingReleases)
		require.NoError(t, c.Nodes[0].SetError(""))
		cycle(t, r, "b", math.MaxInt64/2)
	})
}

// A node that was away for longer than anything can have lasted owes nothing.
func TestUnlockIsPendingUntilTheKeysEnd(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, 5*time.Minute)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.Nodes[0].Stop())
		time.Sleep(2 * time.Second)
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(4 * time.Minute)
		assert.Equal(t, 1, r.Stats().Nodes[0].PendingReleases)
		time.Sleep(2 * time.Minute)
		cleaned := countCommands(t, "EVALSHA", c.Nodes[0])
		require.NoError(t, c.Nodes[0].Restart(true))
		time.Sleep(5 * time.Second)
		assert.True(t, r.Stats().Nodes[0].Up)
		assert.Zero(t, r.Stats().Nodes[0].PendingReleases)
		assert.Zero(t, cleaned.Load())
	})
}

// Those of other processes' locks are sent again for as long as a node that is away is owed them. The
// minute in which something may come late begins when the node has carried one out.
func TestReleaseByAnotherProcessThatIsRefusedIsRepeatedForAnHour(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		n := c.Nodes[0]
		first, worker := newRedlock(t, c), newRedlock(t, c)
		warm(t, worker)
		l, err := first.TryLock(t.Context(), []string{"a"}, 10*time.Hour)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, n.SetError("MISCONF Errors writing to the AOF file"))
		require.NoError(t, worker.Release(t.Context(), []string{"a"}, l.Token()))
		time.Sleep(redlock.UnknownLife - time.Minute)
		synctest.Wait()
		require.Equal(t, 1, worker.Stats().Nodes[0].PendingReleases)
		require.NoError(t, n.SetError(""))
		time.Sleep(2 * time.Second)
		requireNoKeys(t, c)
		assert.Zero(t, worker.Stats().Nodes[0].PendingReleases)
		time.Sleep(20 * time.Second)
		require.NoError(t, n.Set("a", l.Token(), time.Hour))
		time.Sleep(25 * time.Second)
		requireNoKeys(t, c)
		time.Sleep(2 * time.Minute)
		assert.Zero(t, worker.Stats().Nodes[0].Repeats)
	})
}
