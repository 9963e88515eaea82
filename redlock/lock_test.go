package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/testkit"
	"github.com/seed6c881748/redlock/redlock"
)

func TestLockIsHeldByEveryNodeUntilUnlock(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 7} {
		inBubble(t, n, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			start := time.Now()
			l, err := r.TryLock(t.Context(), []string{"b", "a", "b"}, ttl)
			require.NoError(t, err)
			synctest.Wait() // The nodes beyond the quorum.
			assert.Equal(t, []string{"a", "b"}, l.Resources())
			assert.Len(t, l.Token(), 32)
			assert.Equal(t, 1, l.Attempts())
			assert.Equal(t, start.Add(ttl-102*time.Millisecond), l.Until())
			require.NoError(t, l.Err())
			assert.Equal(t, n, holders(t, c, l))
			assert.Equal(t, 1, r.Stats().Held)

			_, err = r.TryLock(t.Context(), []string{"b"}, ttl)
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.NotErrorIs(t, err, redlock.ErrNoQuorum)
			var qe *redlock.QuorumError
			require.ErrorAs(t, err, &qe)
			assert.Len(t, qe.Votes, n)

			require.NoError(t, l.Unlock(t.Context()))
			require.ErrorIs(t, l.Err(), redlock.ErrLost)
			require.NoError(t, l.Unlock(t.Context()), "repeated")
			synctest.Wait()
			requireNoKeys(t, c)
			assert.Equal(t, 0, r.Stats().Held)
			require.NoError(t, r.Close(t.Context()))
		})
	}
}

func TestLockEndsAtUntil(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		time.Sleep(time.Until(l.Until()) - 1)
		require.NoError(t, l.Err())
		time.Sleep(time.Nanosecond)
		require.ErrorIs(t, l.Err(), redlock.ErrExpired)
		require.ErrorIs(t, l.Err(), redlock.ErrLost)
		require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrExpired)
	})
}

func TestLockWaitsForTheHolder(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() { _ = l.Unlock(context.Background()) })
		l2, err := r.Lock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		assert.Greater(t, l2.Attempts(), 3)
		require.NoError(t, l2.Unlock(t.Context()))
	})
}

func TestLockReturnsAContextErrorAndWhatItSaw(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithRetryCount(-1))
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = r.Lock(ctx, []string{"a"}, ttl)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, l.Unlock(t.Context()))
		ctx2, cancel2 := context.WithCancel(t.Context())
		cancel2()
		_, err = r.Lock(ctx2, []string{"a"}, ttl)
		require.ErrorIs(t, err, context.Canceled)
		var qe *redlock.QuorumError
		require.NotErrorAs(t, err, &qe, "nothing was asked")
	})
}

// Wherever in an attempt or between two the context ends: the error says so, and
// a lock that is taken is not reported as unreachable nodes.
func TestLockWhoseWaitIsCutShortSaysWhyAndWhatItSaw(t *testing.T) {
	for d := 61 * time.Millisecond; d < time.Second; d += scenario(7*time.Millisecond, 67*time.Millisecond) {
		inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c, redlock.WithRetryCount(-1))
			for i, n := range c.Nodes {
				require.NoError(t, n.Slow(time.Duration(5*i)*time.Millisecond, time.Duration(6*i)*time.Millisecond))
			}
			l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.NoError(t, err)
			time.Sleep(time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			_, err = r.Lock(ctx, []string{"a"}, ttl)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.NotErrorIs(t, err, redlock.ErrNoQuorum)
			require.NoError(t, l.Unlock(t.Context()))
		})
	}
}

func TestLockGetsNothingFromAQuorumAfterUntil(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		require.NoError(t, c.Slow(30*time.Millisecond, 30*time.Millisecond))
		start := time.Now()
		_, err := r.TryLock(t.Context(), []string{"a"}, 40*time.Millisecond)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.Less(t, time.Since(start), 40*time.Millisecond)
		time.Sleep(time.Second)
		requireNoKeys(t, c)

		l, err := r.TryLock(t.Context(), []string{"a"}, 100*time.Millisecond)
		require.NoError(t, err)
		time.Sleep(time.Until(l.Until()) - 30*time.Millisecond)
		err = l.Extend(t.Context(), ttl) // Answered after the old Until.
		require.ErrorIs(t, err, redlock.ErrExpired)
		require.ErrorIs(t, l.Err(), redlock.ErrExpired)
		_ = l.Unlock(t.Context())
	})
}

func TestLockEndsWhenTheWallClockIsAheadOfTheMonotonicOne(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		testkit.WallOffset(r).Store(int64(time.Minute)) // The machine slept.
		require.ErrorIs(t, l.Err(), redlock.ErrExpired)
		testkit.WallOffset(r).Store(0) // Lost is terminal.
		require.ErrorIs(t, l.Err(), redlock.ErrExpired)
		require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrExpired)
	})
}

func TestLockDoesNotOverwriteAKeyOfAnotherType(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		for _, n := range c.Nodes {
			conn, err := n.Conn(t.Context())
			require.NoError(t, err)
			_, err = conn.Do("HSET", "h", "f", "v")
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}
		for _, resources := range [][]string{{"h"}, {"a", "h"}} {
			_, err := r.TryLock(t.Context(), resources, ttl)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			assert.Contains(t, err.Error(), "WRONGTYPE")
		}
		synctest.Wait()
		for _, n := range c.Nodes {
			require.NotContains(t, keys(t, n), "a")
		}
	})
}

func TestLockOnAForeignKeyWithoutExpiry(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		require.NoError(t, c.Set("a", "for ever", 0))
		_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, redlock.ErrTaken)
		for _, v := range votesOf(t, err) {
			if errors.Is(v.Err, redlock.ErrTaken) {
				assert.Negative(t, v.HolderTTL)
			}
		}
		assert.Contains(t, err.Error(), "without expiry")
	})
}
