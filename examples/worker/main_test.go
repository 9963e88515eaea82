package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/examples/internal/stagetest"
	"github.com/seed6c881748/redlock/redlock"
)

const stepTime = 100 * time.Millisecond

// open returns a worker that calls at before each step.
func open(t *testing.T, s *stage.Stage, steps int, at func(n int)) *worker {
	t.Helper()
	progress := stage.NewStore[int](time.Millisecond)
	return &worker{r: s.Client(), progress: progress, steps: steps, step: func(ctx context.Context, n int) error {
		if ctx.Err() != nil {
			t.Errorf("step %d begins without the lock", n)
		}
		at(n)
		return stage.Sleep(ctx, stepTime)
	}}
}

func (w *worker) done(t *testing.T) int {
	t.Helper()
	return stage.Got(w.progress.Get(t.Context(), job))
}

func TestWorkerDoesTheWholeJob(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		w := open(t, s, 100, func(int) {}) // Five times as long as the ttl.
		require.NoError(t, w.work(t.Context()))
		require.Equal(t, 100, w.done(t))
	})
}

func TestWorkerStopsWhenItsLockIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mishap func(s *stage.Stage)
		cause  error
		within time.Duration
	}{
		"robbed":  {func(s *stage.Stage) { s.Rob(3, job) }, redlock.ErrLost, ttl/3 + stepTime},
		"cut off": {func(s *stage.Stage) { s.Kill(3) }, redlock.ErrExpired, ttl},
		"hung":    {func(s *stage.Stage) { s.Hang(3) }, redlock.ErrExpired, ttl},
	} {
		t.Run(name, func(t *testing.T) {
			stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
				var mishap time.Time
				w := open(t, s, 1000, func(n int) {
					if n == 50 {
						mishap = time.Now()
						c.mishap(s)
					}
				})
				require.ErrorIs(t, w.work(t.Context()), c.cause)
				// Release included, for which a hung node gets its time.
				require.LessOrEqual(t, time.Since(mishap), c.within+time.Second)
				require.GreaterOrEqual(t, w.done(t), 50)
				require.LessOrEqual(t, w.done(t), 50+int(c.within/stepTime))
			})
		})
	}
}

func TestWorkerSaysWhenItsCallerHasStoppedIt(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
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
		require.Equal(t, 50, w.done(t))
	})
}

func TestWorkerRuns(t *testing.T) { stagetest.Runs(t, tell) }
