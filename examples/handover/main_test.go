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

// Whether the job is done or fails.
func TestTheLockIsHeldUntilTheWorkerReleasesIt(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		api, worker := s.Client(), s.Client()
		for user, failure := range map[string]error{"ada": nil, "grace": errors.New("no paper")} {
			j := stage.Got(request(t.Context(), api, user))
			_, err := request(t.Context(), api, user)
			require.ErrorIs(t, err, errBusy, "also before the worker begins")
			require.ErrorIs(t, perform(t.Context(), worker, j, func(ctx context.Context) error {
				_, again := request(ctx, api, user)
				require.ErrorIs(t, again, errBusy)
				return errors.Join(stage.Sleep(ctx, ttl/2), failure)
			}), failure)
			_, err = request(t.Context(), api, user)
			require.NoError(t, err)
		}
	})
}

func TestAJobEndsBeforeItsLock(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		j := stage.Got(request(t.Context(), s.Client(), "ada"))
		err := perform(t.Context(), s.Client(), j, func(ctx context.Context) error { return stage.Sleep(ctx, time.Hour) })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, redlock.ErrLost)
		require.True(t, time.Now().Before(j.Until))
	})
}

// A job that is delivered again harms nobody.
func TestHandoverRuns(t *testing.T) { stagetest.Runs(t, tell) }
