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
	"github.com/seed6c881748/redlock/test/testkit"
)

func TestExtendMovesUntilAndTheKeys(t *testing.T) {
	withRedlock(t, 5, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := tryLock(t, r, []string{"a", "b"}, ttl)
		time.Sleep(ttl / 2)
		before := l.Until()
		require.NoError(t, l.Extend(t.Context(), time.Second), "a shorter ttl")
		assert.Equal(t, before, l.Until(), "never shortens")
		require.NoError(t, l.Extend(t.Context(), ttl*3/4))
		assert.Equal(t, time.Now().Add(testkit.Validity(ttl*3/4)), l.Until(), "a shorter ttl counts if it ends later")
		require.NoError(t, l.Extend(t.Context(), ttl))
		synctest.Wait()
		assert.Equal(t, time.Now().Add(testkit.Validity(ttl)), l.Until())
		for _, n := range c.Nodes {
			for key, state := range keys(t, n) {
				assert.Equal(t, ttl, state.TTL, "%s on %s", key, n.Name())
			}
		}
		require.NoError(t, l.Unlock(t.Context()))
		require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrLost)
		require.NotErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrExpired)
	})
}

// As for a lock: it counts from its start, and what the machine slept while the nodes were asked comes off.
func TestExtendCountsASleepWithinItsRound(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := tryLock(t, r, []string{"a"}, ttl)
		time.Sleep(ttl / 10)
		requireSleepCounts(t, c, r, func() (*redlock.Lock, error) { return l, l.Extend(t.Context(), ttl) })
	})
}

func TestExtendOfALockThatAQuorumDoesNotKnow(t *testing.T) {
	withRedlock(t, 5, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockOnAll(t, r, []string{"a"}, ttl)
		until := l.Until()
		for _, n := range c.Nodes[:3] {
			require.NoError(t, l.Err())
			require.NoError(t, n.Del("a"))
		}
		require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrLost)
		require.ErrorIs(t, l.Err(), redlock.ErrLost)
		require.NotErrorIs(t, l.Err(), redlock.ErrExpired)
		assert.Equal(t, until, l.Until())
		require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrLost)
		synctest.Wait()
		for _, n := range c.Nodes[:3] {
			require.Empty(t, keys(t, n), "an extension creates nothing")
		}
		for _, n := range c.Nodes[3:] {
			require.NotEmpty(t, keys(t, n), "an extension deletes nothing")
		}
	})
}

// A node that refuses, and one that has lost the lock, make the extension fail; that the next one has
// lost it, too, makes it a loss, of which a hold must hear.
func TestExtendFindsALossWhileAnotherNodeIsDown(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockOnAll(t, r, []string{"a"}, ttl)
		for i, n := range c.Nodes[:2] {
			require.NoError(t, n.Del("a"))
			delay := time.Duration(i+1) * time.Millisecond
			require.NoError(t, n.Slow(delay, delay))
		}
		require.NoError(t, c.Nodes[2].Stop())
		synctest.Wait()
		require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrLost)
		require.ErrorIs(t, l.Err(), redlock.ErrLost)
	})
}

func TestExtendWithoutQuorumLeavesTheLockHeld(t *testing.T) {
	withRedlock(t, 5, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockOnAll(t, r, []string{"a"}, ttl)
		until := l.Until()
		require.NoError(t, c.First(3).Hang())
		err := l.Extend(t.Context(), ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, redlock.ErrLost)
		require.NoError(t, l.Err())
		assert.Equal(t, until, l.Until())
		ctx := within(t, 10*time.Millisecond)
		require.ErrorIs(t, l.Extend(ctx, ttl), context.DeadlineExceeded)
		require.NoError(t, l.Err())
		require.NoError(t, c.First(3).Resume())
		time.Sleep(3 * time.Second)
		require.NoError(t, l.Extend(t.Context(), ttl))
		require.NoError(t, l.Unlock(t.Context()))
	})
}

func TestRepairOfNodesThatLostTheKey(t *testing.T) {
	withRedlock(t, 5, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := tryLock(t, r, []string{"a", "b"}, 10*time.Second)
		ctx := l.KeepAlive(t.Context())
		time.Sleep(time.Second)
		// One node after the other loses its data: more than a quorum in all.
		for i, n := range c.Nodes {
			require.NoError(t, n.Stop())
			require.NoError(t, n.Restart(false))
			if i%2 == 0 { // A part of it only.
				require.NoError(t, n.Set("a", l.Token(), time.Minute))
			}
			time.Sleep(10 * time.Second)
			require.Equal(t, 5, holders(t, c, l))
			require.NoError(t, ctx.Err())
		}
		assert.GreaterOrEqual(t, r.Stats().Repaired, int64(5))
		// What is another's is left alone.
		require.NoError(t, c.Nodes[0].Set("b", "x", time.Hour))
		require.NoError(t, c.Nodes[1].Del("a"))
		require.NoError(t, c.Nodes[1].Set("b", "x", time.Hour))
		time.Sleep(10 * time.Second)
		assert.Equal(t, "x", keys(t, c.Nodes[0])["b"].Value)
		assert.NotContains(t, keys(t, c.Nodes[1]), "a")
		require.NoError(t, ctx.Err())
		require.NoError(t, l.Unlock(t.Context()))
		synctest.Wait()
		require.NoError(t, c.Nodes[0].Del("b"))
		require.NoError(t, c.Nodes[1].Del("b"))
		requireReleased(t, c)
	})
}

// A node that was away when the lock was taken gets the keys, too, but has not lost them.
func TestRepairsThatAreCountedAreLosses(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		n := c.Nodes[0]
		require.NoError(t, n.Stop())
		l := tryLock(t, r, []string{"a"}, time.Minute)
		require.NoError(t, n.Restart(true))
		for _, want := range []int64{0, 1} {
			time.Sleep(5 * time.Second)
			require.NoError(t, l.Extend(t.Context(), time.Minute))
			synctest.Wait()
			require.Equal(t, 3, holders(t, c, l))
			assert.Equal(t, want, r.Stats().Repaired)
			require.NoError(t, n.Flush())
		}
	})
}

// A node that has lost the keys is being connected to when the last vote comes, and is there again when the lock is over.
func TestRepairOfALapsedLockIsNotMadeByALateConnection(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		const ttl = 300 * time.Millisecond
		l := lockOnAll(t, r, []string{"a"}, ttl)
		require.NoError(t, c.Nodes[2].Del("a"))
		c.Nodes[1].Proxy().SetDelays(0, 0, 90*time.Millisecond, 90*time.Millisecond)
		done := meanwhile(func() error { return l.Extend(t.Context(), ttl) })
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, c.Nodes[2].Hang())
		c.Nodes[2].Proxy().Kill()
		require.NoError(t, <-done)
		time.Sleep(ttl + 50*time.Millisecond)
		require.ErrorIs(t, l.Err(), redlock.ErrExpired)
		require.NoError(t, c.Nodes[2].Resume())
		time.Sleep(100 * time.Millisecond)
		assert.Empty(t, keys(t, c.Nodes[2]))
	})
}
