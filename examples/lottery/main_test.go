package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/recipe"
	"github.com/seed6c881748/redlock/examples/internal/recipetest"
)

func TestLotteryGivesOneRewardForTheLastCredit(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		handlers, credits, err := open(s, time.Second)
		require.NoError(t, err)
		require.NoError(t, credits.Set(t.Context(), user, 1))

		statuses := make([]int, len(handlers))
		recipe.Together(len(handlers), func(i int) error {
			statuses[i] = post(t.Context(), handlers[i]).Code
			return nil
		})
		slices.Sort(statuses)
		require.Equal(t, []int{http.StatusOK, http.StatusConflict, http.StatusConflict}, statuses)

		// The lock was released before the answer was there.
		require.Equal(t, http.StatusPaymentRequired, post(t.Context(), handlers[1]).Code)
		left, err := credits.Get(t.Context(), user)
		require.NoError(t, err)
		require.Zero(t, left)
	})
}

func TestLotteryAnswersAtOnceWhileTheLockIsTaken(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		handlers, credits, err := open(s, time.Second)
		require.NoError(t, err)
		require.NoError(t, credits.Set(t.Context(), user, 1))
		first := make(chan *httptest.ResponseRecorder)
		go func() { first <- post(t.Context(), handlers[0]) }()
		synctest.Wait() // The first one has the lock and waits for the store.
		start := time.Now()
		require.Equal(t, http.StatusConflict, post(t.Context(), handlers[1]).Code)
		require.Zero(t, time.Since(start))
		require.Equal(t, http.StatusOK, (<-first).Code)
	})
}

func TestLotteryTakesNoCreditAfterItsLock(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		handlers, credits, err := open(s, 2*ttl) // Slower than the lock is long.
		require.NoError(t, err)
		require.NoError(t, credits.Set(t.Context(), user, 1))
		require.Equal(t, http.StatusServiceUnavailable, post(t.Context(), handlers[0]).Code)
		left, err := credits.Get(context.Background(), user)
		require.NoError(t, err)
		require.Equal(t, 1, left)
		synctest.Wait() // For the release on the other nodes.
		holding, err := s.Holding("lottery:" + user)
		require.NoError(t, err)
		require.Zero(t, holding)
	})
}

func TestLotteryRuns(t *testing.T) {
	recipetest.Runs(t, tell)
}
