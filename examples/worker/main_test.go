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

func TestWorkerStopsWhenItsLockIsLost(t *testing.T) {
	for cause, mishap := range map[error]func(s *stage.Stage){
		redlock.ErrLost:    func(s *stage.Stage) { s.Rob(3, job) },
		redlock.ErrExpired: func(s *stage.Stage) { s.Kill(3) },
	} {
		t.Run(cause.Error(), func(t *testing.T) {
			stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
				w := open(t, s, 1000, func(n int) {
					if n == 50 {
						mishap(s)
					}
				})
				require.ErrorIs(t, w.work(t.Context()), cause)
				require.GreaterOrEqual(t, w.done(t), 50)
				require.LessOrEqual(t, w.done(t), 50+int(ttl/stepTime))
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
