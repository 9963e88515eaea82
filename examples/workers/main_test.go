package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/recipe"
	"github.com/seed6c881748/redlock/examples/internal/recipetest"
	"github.com/seed6c881748/redlock/redlock"
)

func open(t *testing.T, s *recipe.Stage, f *floor) (pools []*pool) {
	t.Helper()
	for range processes {
		r := recipetest.Client(t, s)
		p, err := newPool(r, f.do)
		require.NoError(t, err)
		pools = append(pools, p)
	}
	return pools
}

func TestAtMostFiveWork(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		f := &floor{}
		require.NoError(t, workAll(t.Context(), open(t, s, f), 30))
		require.Equal(t, permits, f.most)
		require.Equal(t, 30, f.done)
	})
}

// The slot of a process that has died is used again, and the others are used meanwhile.
func TestASlotComesBack(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		f := &floor{}
		pools := open(t, s, f)
		for range permits - 1 {
			_, err := pools[0].s.Acquire(t.Context())
			require.NoError(t, err)
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
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		r := recipetest.Client(t, s)
		p, err := newPool(r, func(ctx context.Context, _ int, _ string) error {
			require.NoError(t, s.Kill(3))
			return recipe.Sleep(ctx, time.Minute)
		})
		require.NoError(t, err)
		began := time.Now()
		require.ErrorIs(t, workAll(t.Context(), []*pool{p}, 1), redlock.ErrExpired)
		require.LessOrEqual(t, time.Since(began), 2*ttl, "the work went on")
	})
}

// A job that was taken from the queue and not begun is not forgotten.
func TestAJobWithoutAPermitIsReported(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		f := &floor{}
		pools := open(t, s, f)
		require.NoError(t, s.Kill(3))
		ctx, cancel := context.WithTimeout(t.Context(), ttl)
		defer cancel()
		err := workAll(ctx, pools[:1], 1)
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		require.ErrorContains(t, err, "job 1: ")
		require.Zero(t, f.done)
	})
}

func TestWorkersRuns(t *testing.T) {
	recipetest.Runs(t, tell)
}
