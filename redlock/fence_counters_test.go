package redlock_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/testkit"
	"github.com/seed6c881748/redlock/redlock"
)

// countersOf returns a resource's counters, -1 for none.
func countersOf(t *testing.T, c *testcluster.Cluster, resource string) []int64 {
	t.Helper()
	all := make([]int64, len(c.Nodes))
	for i, n := range c.Nodes {
		text, ok, err := n.Get(testkit.CounterKey(resource))
		require.NoError(t, err)
		all[i] = -1
		if ok {
			all[i], err = strconv.ParseInt(text, 10, 64)
			require.NoError(t, err)
		}
	}
	return all
}

// setCounters sets a resource's counters, so far that no proposal reaches them.
func setCounters(t *testing.T, c *testcluster.Cluster, resource string, values ...int64) {
	t.Helper()
	for i, n := range c.Nodes {
		require.NoError(t, n.Set(testkit.CounterKey(resource), strconv.FormatInt(values[i], 10), time.Hour))
	}
}

// ahead is a counter that is ahead of all clocks.
func ahead() int64 { return time.Now().Add(24 * time.Hour).UnixMicro() }

func TestFenceCountersOutliveTheLock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		const life = time.Minute
		r := newRedlock(t, c, redlock.WithFencing(), redlock.WithFenceLife(life))
		l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		kept := l.KeepAlive(t.Context())
		time.Sleep(10 * life)
		require.NoError(t, kept.Err())
		assert.Equal(t, []int64{l.Fence(), l.Fence(), l.Fence()}, countersOf(t, c, "x"), "extensions keep them")
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(life - ttl)
		assert.Equal(t, []int64{l.Fence(), l.Fence(), l.Fence()}, countersOf(t, c, "x"))
		time.Sleep(ttl)
		assert.Equal(t, []int64{-1, -1, -1}, countersOf(t, c, "x"))
	})
}

func TestFenceCountersAreRestoredByRepairsAndExtensions(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithFencing())
		l, err := r.TryLock(t.Context(), []string{"x", "y"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.Nodes[0].Flush())
		require.NoError(t, c.Nodes[1].Del(testkit.CounterKey("y")))
		require.NoError(t, l.Extend(t.Context(), ttl))
		time.Sleep(time.Second)
		for _, res := range []string{"x", "y"} {
			assert.Equal(t, []int64{l.Fence(), l.Fence(), l.Fence()}, countersOf(t, c, res))
		}
		assert.Len(t, keys(t, c.Nodes[0]), 2)
		assert.EqualValues(t, 1, r.Stats().Repaired)

		setCounters(t, c, "x", l.Fence()+1, l.Fence()+1, l.Fence()+1) // Of no use, but not lowered.
		require.NoError(t, l.Extend(t.Context(), ttl))
		assert.Equal(t, []int64{l.Fence() + 1, l.Fence() + 1, l.Fence() + 1}, countersOf(t, c, "x"))
	})
}

func TestFenceCounterThatIsNoneOrAtItsEndGrantsNothing(t *testing.T) {
	for _, value := range []string{"9007199254740991", "9007199254740992", "1e300", "nan", "x", ""} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c, redlock.WithFencing())
			for _, n := range c.Nodes[:2] {
				require.NoError(t, n.Set(testkit.CounterKey("x"), value, time.Hour))
			}
			_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
			require.ErrorIs(t, err, redlock.ErrNoQuorum, value)
			var qe *redlock.QuorumError
			require.ErrorAs(t, err, &qe)
			require.ErrorContains(t, qe.Votes[0].Err, "NOFENCE")
			synctest.Wait()
			for _, n := range c.Nodes {
				assert.Empty(t, keys(t, n))
			}
		})
	}
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithFencing())
		setCounters(t, c, "x", redlock.MaxFence-1, redlock.MaxFence-1, redlock.MaxFence-1)
		l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		assert.EqualValues(t, redlock.MaxFence, l.Fence(), "the last one")
	})
}
