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

func TestExtendMovesUntilAndTheKeys(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a", "b"}, ttl)
		require.NoError(t, err)
		time.Sleep(ttl / 2)
		before := l.Until()
		require.NoError(t, l.Extend(t.Context(), time.Second), "a shorter ttl")
		assert.Equal(t, before, l.Until(), "never shortens")
		require.NoError(t, l.Extend(t.Context(), ttl))
		synctest.Wait()
		assert.Equal(t, time.Now().Add(redlock.Validity(ttl, redlock.DefaultDriftFactor)), l.Until())
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

func TestExtendOfALockThatAQuorumDoesNotKnow(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
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
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
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
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
		until := l.Until()
		for _, n := range c.Nodes[:3] {
			require.NoError(t, n.Hang())
		}
		err = l.Extend(t.Context(), ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, redlock.ErrLost)
		require.NoError(t, l.Err())
		assert.Equal(t, until, l.Until())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		err = l.Extend(ctx, ttl)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, l.Err())
		for _, n := range c.Nodes[:3] {
			require.NoError(t, n.Resume())
		}
		time.Sleep(3 * time.Second)
		require.NoError(t, l.Extend(t.Context(), ttl))
		require.NoError(t, l.Unlock(t.Context()))
	})
}

func TestExtendInFlightCannotReviveAReleasedLock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
		until := l.Until()
		require.NoError(t, c.Slow(10*time.Millisecond, 10*time.Millisecond))
		extended := make(chan error)
		go func() { extended <- l.Extend(context.Background(), 2*ttl) }()
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.ErrorIs(t, <-extended, redlock.ErrLost)
		assert.Equal(t, until, l.Until())
		time.Sleep(time.Second)
		requireNoKeys(t, c)
	})
}

func TestExtendWithoutAnswersLengthensWhatIsCleanedUp(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Second)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.Nodes[1].Hang())
		require.NoError(t, c.Nodes[2].Hang())
		require.ErrorIs(t, l.Extend(t.Context(), time.Hour), redlock.ErrNoQuorum)
		require.NoError(t, c.Nodes[0].SetError("BUSY x"))
		require.Error(t, l.Unlock(t.Context()))
		time.Sleep(3 * time.Second)
		for _, n := range c.Nodes {
			require.NoError(t, n.Resume())
			require.NoError(t, n.SetError(""))
		}
		time.Sleep(5 * time.Second)
		requireNoKeys(t, c)
	})
}
