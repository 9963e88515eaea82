package ticks_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/ticks"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A process that comes within the min hold leaves out the tick. A Redlock whose callers pass its locks on has jobs all
// the same: their locks take no part, as they have a min hold.
func TestTicksOfARedlockWithTurns(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := testkit.NewRedlock(t, c, redlock.WithTurn(10*time.Millisecond))
		jobs, err := ticks.NewLocker(r, time.Minute, 10*time.Second, 5*time.Second)
		require.NoError(t, err)
		l, err := jobs.Lock(t.Context(), "job", 0)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(context.WithoutCancel(t.Context())))
		_, err = jobs.Lock(t.Context(), "job", 0)
		require.ErrorIs(t, err, redlock.ErrTaken)
		_, err = ticks.NewLocker(r, time.Minute, time.Hour, time.Minute)
		require.EqualError(t, err, "the min hold must be positive and not exceed the ttl of 1m0s: 1h0m0s")
	})
}
