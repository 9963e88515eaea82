package semaphore_test

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

// TryAcquire finds the one slot that is free, in few round trips, and fails at once if there is none.
func TestTryAcquire(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		const k = 16
		r := testkit.NewRedlock(t, c)
		s := newSemaphore(t, r, k)
		testkit.Warm(t, r)
		held := acquireAll(t, process(t, c, k), k)
		require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
		for _, p := range held {
			began := time.Now()
			_, err := s.TryAcquire(t.Context())
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.ErrorIs(t, err, redlock.ErrNotAcquired)
			assert.LessOrEqual(t, time.Since(began), 5*2*time.Millisecond, "1, 2, 4, 8 and the last one")
			unlock(t, p)
			got, err := s.TryAcquire(t.Context())
			require.NoError(t, err)
			assert.Equal(t, p.Slot, got.Slot)
		}
		assert.Equal(t, k, r.Stats().Held)

		require.NoError(t, c.Hang())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := s.TryAcquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 10*time.Millisecond, time.Since(began), "it ends with its context")
	})
}

// Of several slots that it gets at the same time it keeps one.
func TestTryAcquireGivesBackTheSurplus(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		const k = 16
		r := testkit.NewRedlock(t, c)
		s := newSemaphore(t, r, k)
		surplus := int64(0)
		for range 50 {
			held := acquireAll(t, process(t, c, k), k/2)
			before := r.Stats().Acquired
			p, err := s.TryAcquire(t.Context())
			require.NoError(t, err)
			time.Sleep(soon)
			surplus += r.Stats().Acquired - before - 1
			require.Len(t, taken(t, c), k/2+1)
			unlock(t, append(held, p)...)
			requireNothingLeft(t, c)
		}
		assert.Positive(t, surplus, "it has happened")
	})
}

// The error speaks of the permits, and has the votes on one of them.
func TestTryAcquireSaysThatAllAreTaken(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		for k, want := range map[int]string{1: "the only permit is taken", 3: "all 3 permits are taken"} {
			held := acquireAll(t, process(t, c, k, redlock.WithOwner("vm/1")), k)
			s := process(t, c, k)
			_, err := s.TryAcquire(t.Context())
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.ErrorIs(t, err, redlock.ErrNotAcquired)
			require.Regexp(t, `^semaphore "jobs": `+want+`; one of them: redlock: lock \["jobs#\d"\]: .*vm/1`, err.Error())
			assert.Len(t, testkit.VotesOf(t, err), 3)

			// Without the nodes nobody knows.
			require.NoError(t, c.SetError("LOADING x"))
			_, err = s.TryAcquire(t.Context())
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.Regexp(t, `^semaphore "jobs": redlock: lock \["jobs#\d"\]: no quorum`, err.Error())
			synctest.Wait() // Each node has refused before it is well again.
			require.NoError(t, c.SetError(""))
			unlock(t, held...)
			time.Sleep(5 * time.Second) // A release that was refused is sent again.
			requireNothingLeft(t, c)
		}
	})
}
