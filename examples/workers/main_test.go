package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/examples/internal/stagetest"
	"github.com/seed6c881748/redlock/redlock"
)

// The slot of a process that has died is used again, and the others are used meanwhile.
func TestASlotComesBack(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		f := &floor{}
		pools := open(s, f)
		for range permits - 1 {
			stage.Got(pools[0].s.Acquire(t.Context()))
		}
		began := time.Now()
		require.NoError(t, workAll(t.Context(), pools[1:], 10))
		require.Less(t, time.Since(began), ttl, "one after the other, as there is one slot")
		time.Sleep(ttl)
		require.NoError(t, workAll(t.Context(), pools[1:], 20))
		require.Equal(t, permits, f.most)
	})
}

// Who has lost the permit is told, and the work says so.
func TestWorkStopsWithItsPermit(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		p := stage.Got(newPool(s.Client(), func(ctx context.Context, _ int, _ string) error {
			s.Kill(3)
			return stage.Sleep(ctx, time.Minute)
		}))
		began := time.Now()
		require.ErrorIs(t, workAll(t.Context(), []*pool{p}, 1), redlock.ErrExpired)
		require.LessOrEqual(t, time.Since(began), 2*ttl, "the work went on")
	})
}

// A job that was taken from the queue and not begun is not forgotten.
func TestAJobWithoutAPermitIsReported(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		f := &floor{}
		pools := open(s, f)
		s.Kill(3)
		ctx, cancel := context.WithTimeout(t.Context(), ttl)
		defer cancel()
		err := workAll(ctx, pools[:1], 1)
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		require.ErrorContains(t, err, "job 1: ")
		require.Zero(t, f.done)
	})
}

func TestWorkersRuns(t *testing.T) { stagetest.Runs(t, tell) }
