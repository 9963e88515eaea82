package redlock

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
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
			require.ErrorIs(t, err, ErrTaken)
			require.NotErrorIs(t, err, ErrNoQuorum)
			var qe *QuorumError
			require.ErrorAs(t, err, &qe)
			assert.Len(t, qe.Votes, n)

			require.NoError(t, l.Unlock(t.Context()))
			require.ErrorIs(t, l.Err(), ErrLost)
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
		require.ErrorIs(t, l.Err(), ErrExpired)
		require.ErrorIs(t, l.Err(), ErrLost)
		require.ErrorIs(t, l.Extend(t.Context(), ttl), ErrExpired)
	})
}

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
		assert.Equal(t, time.Now().Add(Validity(ttl, DefaultDriftFactor)), l.Until())
		for _, n := range c.Nodes {
			for key, state := range keys(t, n) {
				assert.Equal(t, ttl, state.TTL, "%s on %s", key, n.Name())
			}
		}
		require.NoError(t, l.Unlock(t.Context()))
		require.ErrorIs(t, l.Extend(t.Context(), ttl), ErrLost)
		require.NotErrorIs(t, l.Extend(t.Context(), ttl), ErrExpired)
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
		r := newRedlock(t, c, WithRetryCount(-1))
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = r.Lock(ctx, []string{"a"}, ttl)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrTaken)
		require.NoError(t, l.Unlock(t.Context()))
		ctx2, cancel2 := context.WithCancel(t.Context())
		cancel2()
		_, err = r.Lock(ctx2, []string{"a"}, ttl)
		require.ErrorIs(t, err, context.Canceled)
		var qe *QuorumError
		require.NotErrorAs(t, err, &qe, "nothing was asked")
	})
}

// Wherever in an attempt or between two the context ends: the error says so, and
// a lock that is taken is not reported as unreachable nodes.
func TestAWaitThatIsCutShortSaysWhyAndWhatItSaw(t *testing.T) {
	for d := 61 * time.Millisecond; d < time.Second; d += scenario(7*time.Millisecond, 67*time.Millisecond) {
		inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c, WithRetryCount(-1))
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
			require.ErrorIs(t, err, ErrTaken)
			require.NotErrorIs(t, err, ErrNoQuorum)
			require.NoError(t, l.Unlock(t.Context()))
		})
	}
}

func TestConcurrentUnlocksAreOneRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
		var scripts atomic.Int64
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(time.Millisecond, time.Millisecond))
			require.NoError(t, n.OnCommand(func(string, []string) { scripts.Add(1) }))
		}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { assert.NoError(t, l.Unlock(context.Background())) })
		}
		wg.Wait()
		synctest.Wait()
		assert.Equal(t, int64(3), scripts.Load())
	})
}
