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
)

func TestHoldWithMinHold(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		start := time.Now()
		l, ctx := kept(t, r, 10*time.Second, redlock.WithMinHold(8*time.Second))
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(t.Context()))
		requireEnded(t, ctx, context.Canceled)
		require.ErrorIs(t, l.Err(), redlock.ErrLost)
		require.NoError(t, l.Unlock(t.Context()))
		synctest.Wait()
		assert.Equal(t, 3, holders(t, c, l))
		_, err := r.TryLock(t.Context(), []string{"a"}, time.Second)
		require.ErrorIs(t, err, redlock.ErrTaken)
		time.Sleep(time.Until(start.Add(8*time.Second - time.Millisecond)))
		assert.Equal(t, 3, holders(t, c, l))
		time.Sleep(time.Millisecond)
		requireReleased(t, c)

		// Over already: released at once.
		l, ctx = kept(t, r, 10*time.Second, redlock.WithMinHold(8*time.Second))
		time.Sleep(time.Minute)
		require.NoError(t, ctx.Err())
		require.NoError(t, l.Unlock(t.Context()))
		requireReleased(t, c)

		// A failed attempt leaves nothing, min hold or not.
		require.NoError(t, c.Nodes[0].Set("a", "x", time.Second))
		require.NoError(t, c.Nodes[1].Set("a", "x", time.Second))
		_, err = r.TryLock(t.Context(), []string{"a"}, 10*time.Second, redlock.WithMinHold(8*time.Second))
		require.ErrorIs(t, err, redlock.ErrTaken)
		time.Sleep(time.Second)
		requireReleased(t, c)
		_, err = r.TryLock(t.Context(), []string{"a"}, time.Second, redlock.WithMinHold(time.Second+1))
		require.EqualError(t, err, "redlock: min hold 1.000000001s: must not exceed the ttl 1s")
	})
}

// The clean-up on a new connection leaves the keys, too, and no longer.
func TestHoldWithMinHoldOutlivesABrokenConnection(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		start := time.Now()
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute, redlock.WithMinHold(30*time.Second))
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.NoError(t, c.Hang())
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrNoQuorum)
		for _, n := range c.Nodes {
			n.Proxy().Kill()
			require.NoError(t, n.Resume())
		}
		time.Sleep(5 * time.Second)
		assert.Equal(t, 3, holders(t, c, l))
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(time.Until(start.Add(30 * time.Second)))
		requireReleased(t, c)
	})
}

// A release that the server takes late leaves the keys for what is left then.
func TestHoldWithMinHoldIsNotLongerForALateRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		start := time.Now()
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute, redlock.WithMinHold(5*time.Second))
		require.NoError(t, err)
		synctest.Wait()
		time.Sleep(4200 * time.Millisecond)
		require.NoError(t, c.SetError("BUSY x"))
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrNoQuorum)
		time.Sleep(200 * time.Millisecond)
		require.NoError(t, c.SetError(""))
		time.Sleep(time.Until(start.Add(5*time.Second - time.Millisecond)))
		assert.Equal(t, 3, holders(t, c, l))
		time.Sleep(time.Millisecond)
		requireReleased(t, c)
	})
}

func TestHoldWithMinHoldIsNotLongerForARefusedRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		start := time.Now()
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute, redlock.WithMinHold(8*time.Second))
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, c.Nodes[2].SetError("BUSY x"))
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(6 * time.Second)
		require.NoError(t, c.Nodes[2].SetError(""))
		time.Sleep(time.Until(start.Add(9 * time.Second)))
		for i, n := range c.Nodes {
			k := keys(t, n)["a"]
			assert.Empty(t, k.Value, "node %d still has the key, for %v", i, k)
		}
	})
}

func TestHoldWithMinHoldIsNotLongerForAQueuedRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		start := time.Now()
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute, redlock.WithMinHold(8*time.Second))
		require.NoError(t, err)
		time.Sleep(7 * time.Second)
		require.NoError(t, c.Nodes[2].Hang())
		c.Nodes[2].Proxy().Kill()
		synctest.Wait()
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(900 * time.Millisecond)
		_ = c.Nodes[2].Resume()
		time.Sleep(time.Until(start.Add(8*time.Second + 300*time.Millisecond)))
		assert.Empty(t, keys(t, c.Nodes[2])["a"].Value)
	})
}

// WithMinHold is for a job that has run: one that has not is not kept from running elsewhere.
func TestHoldWithMinHoldLeavesNothingOfAJobThatHasNotBegun(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
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
