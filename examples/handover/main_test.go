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

func open(t *testing.T, s *recipe.Stage) (api, worker *redlock.Redlock) {
	t.Helper()
	clients := recipetest.Clients(t, s, 2)
	return clients[0], clients[1]
}

func done(context.Context) error { return nil }

// Whether the job is done or fails.
func TestTheLockIsHeldUntilTheWorkerReleasesIt(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		api, worker := open(t, s)
		for user, failure := range map[string]error{"ada": nil, "grace": errors.New("no paper")} {
			j, err := request(t.Context(), api, user)
			require.NoError(t, err)
			_, err = request(t.Context(), api, user)
			require.ErrorIs(t, err, errBusy, "also before the worker begins")
			require.ErrorIs(t, perform(t.Context(), worker, j, func(ctx context.Context) error {
				_, again := request(ctx, api, user)
				require.ErrorIs(t, again, errBusy)
				return errors.Join(recipe.Sleep(ctx, ttl/2), failure)
			}), failure)
			_, err = request(t.Context(), api, user)
			require.NoError(t, err)
		}
	})
}

func TestAJobEndsBeforeItsLock(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		api, worker := open(t, s)
		j, err := request(t.Context(), api, "ada")
		require.NoError(t, err)
		err = perform(t.Context(), worker, j, func(ctx context.Context) error { return recipe.Sleep(ctx, time.Hour) })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, redlock.ErrLost)
		require.True(t, time.Now().Before(j.Until))
	})
}

func TestAJobThatIsDeliveredAgainHarmsNobody(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		api, worker := open(t, s)
		j, err := request(t.Context(), api, "ada")
		require.NoError(t, err)
		require.NoError(t, perform(t.Context(), worker, j, done))
		next, err := request(t.Context(), api, "ada")
		require.NoError(t, err)
		require.ErrorIs(t, perform(t.Context(), worker, j, done), redlock.ErrLost)
		_, err = request(t.Context(), api, "ada")
		require.ErrorIs(t, err, errBusy, "the second lock is another one")
		require.NoError(t, perform(t.Context(), worker, next, done))
	})
}

func TestHandoverRuns(t *testing.T) {
	recipetest.Runs(t, tell)
}
