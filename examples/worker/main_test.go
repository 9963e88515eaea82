package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/recipe"
	"github.com/seed6c881748/redlock/examples/internal/recipetest"
	"github.com/seed6c881748/redlock/redlock"
)

const stepTime = 100 * time.Millisecond

// open returns a worker that calls at before each step.
func open(t *testing.T, s *recipe.Stage, steps int, at func(n int)) *worker {
	t.Helper()
	r := recipetest.Client(t, s)
	return &worker{r: r, progress: recipe.NewStore[int](time.Millisecond), steps: steps, step: func(ctx context.Context, n int) error {
		if ctx.Err() != nil {
			t.Errorf("step %d begins without the lock", n)
		}
		at(n)
		return recipe.Sleep(ctx, stepTime)
	}}
}

func progress(t *testing.T, w *worker) int {
	t.Helper()
	done, err := w.progress.Get(t.Context(), job)
	require.NoError(t, err)
	return done
}

func TestWorkerDoesTheWholeJob(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		w := open(t, s, 100, func(int) {}) // Five times as long as the ttl.
		require.NoError(t, w.work(t.Context()))
		require.Equal(t, 100, progress(t, w))
	})
}

func TestWorkerStopsWhenItsLockIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mishap func(s *recipe.Stage) error
		cause  error
		within time.Duration
	}{
		"robbed":  {func(s *recipe.Stage) error { return rob(s, 3) }, redlock.ErrLost, ttl/3 + stepTime},
		"cut off": {func(s *recipe.Stage) error { return s.Kill(3) }, redlock.ErrExpired, ttl},
		"hung": {func(s *recipe.Stage) error {
			return errors.Join(s.Nodes[0].Hang(), s.Nodes[1].Hang(), s.Nodes[2].Hang())
		}, redlock.ErrExpired, ttl},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
				var mishap time.Time
				w := open(t, s, 1000, func(n int) {
					if n == 50 {
						mishap = time.Now()
						require.NoError(t, c.mishap(s))
					}
				})
				err := w.work(t.Context())
				require.ErrorIs(t, err, c.cause)
				// Release included, for which a hung node gets its time.
				require.LessOrEqual(t, time.Since(mishap), c.within+time.Second)
				done := progress(t, w)
				require.GreaterOrEqual(t, done, 50)
				require.LessOrEqual(t, done, 50+int(c.within/stepTime))
			})
		})
	}
}

func TestWorkerSaysWhenItsCallerHasStoppedIt(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		enough := errors.New("enough for today")
		ctx, cancel := context.WithCancelCause(t.Context())
		w := open(t, s, 100, func(n int) {
			if n == 50 {
				cancel(enough)
			}
		})
		err := w.work(ctx)
		require.ErrorIs(t, err, enough)
		require.NotErrorIs(t, err, redlock.ErrLost)
		require.Equal(t, 50, progress(t, w))
	})
}

func TestWorkerRuns(t *testing.T) {
	recipetest.Runs(t, tell)
}
