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
