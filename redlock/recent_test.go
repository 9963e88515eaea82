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

func TestEventsThatAreRecentAreKeptWithoutAHook(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithRetryCount(0))
		warm(t, r)
		assert.Equal(t, []redlock.EventKind{redlock.EventNodeUp, redlock.EventNodeUp, redlock.EventNodeUp}, kinds(r.RecentEvents()),
			"a lock that is got and released is nothing out of the ordinary")

		held := lockElsewhere(t, c, "x", time.Minute)
		_, err := r.Lock(t.Context(), []string{"x"}, ttl)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, held.Unlock(t.Context()))
		assert.Len(t, r.RecentEvents(), 3, "nor is one that is taken")

		lock, err := r.Lock(t.Context(), []string{"job"}, 3*time.Second, redlock.WithOwner("me"))
		require.NoError(t, err)
		ctx := lock.KeepAlive(t.Context())
		for _, n := range c.Nodes[1:] {
			require.NoError(t, n.Stop())
		}
		for range 5 {
			_, err = r.Lock(t.Context(), []string{"other"}, ttl)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
		}
		<-ctx.Done()
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrExpired)
		synctest.Wait()

		seen := map[redlock.EventKind]int{}
		events := r.RecentEvents()
		for i, e := range events {
			seen[e.Kind]++
			assert.True(t, i == 0 || !e.Time.Before(events[i-1].Time), "in order")
			if e.Kind == redlock.EventHoldEnded {
				require.ErrorIs(t, e.Err, redlock.ErrExpired)
				assert.Equal(t, []string{"job"}, e.Resources)
				assert.Equal(t, "me", e.Owner)
			}
		}
		assert.Equal(t, 2, seen[redlock.EventNodeDown])
		assert.Equal(t, 1, seen[redlock.EventHoldAtRisk])
		assert.Equal(t, 1, seen[redlock.EventHoldEnded])
		assert.Equal(t, 1, seen[redlock.EventReleased])
		assert.Equal(t, 1, seen[redlock.EventNotAcquired], "one a second")
		assert.Positive(t, seen[redlock.EventExtended])
		assert.LessOrEqual(t, seen[redlock.EventExtended], 4, "one a second")
		assert.Zero(t, seen[redlock.EventAcquired]+seen[redlock.EventDecided]+seen[redlock.EventSettled])
	})
}

// Losses of locks come in crowds, and must not drive out what has caused them.
func TestEventsThatAreRecentAreBounded(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		for range 200 {
			l, err := r.Lock(t.Context(), []string{"x"}, 10*time.Millisecond)
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
			require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrExpired)
		}
		events := r.RecentEvents()
		require.Len(t, events, 1+64)
		assert.Equal(t, redlock.EventNodeUp, events[0].Kind)
		last := events[len(events)-1]
		assert.WithinDuration(t, time.Now(), last.Time, 5*time.Millisecond, "the latest ones")
		last.Resources[0] = "changed"
		assert.Equal(t, []string{"x"}, r.RecentEvents()[64].Resources)
	})
}

// An event that is kept and one that the hook gets share nothing that either may change.
func TestEventsThatAreRecentAreNotTheHooks(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithHook(func(_ context.Context, e redlock.Event) {
			for i := range e.Resources {
				e.Resources[i] = "the hook's"
			}
			for i := range e.Votes {
				e.Votes[i].Node = "the hook's"
			}
		}))
		require.NoError(t, c.Nodes[0].Stop())
		_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		synctest.Wait()
		events := r.RecentEvents()
		e := events[len(events)-1]
		require.Equal(t, redlock.EventNotAcquired, e.Kind)
		assert.Equal(t, []string{"x"}, e.Resources)
		assert.Equal(t, c.Nodes[0].Name(), e.Votes[0].Node)
		assert.NotZero(t, e.Call)
	})
}
