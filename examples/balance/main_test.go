package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/recipe"
	"github.com/seed6c881748/redlock/examples/internal/recipetest"
	"github.com/seed6c881748/redlock/redlock"
)

func TestBalanceIsOverdrawnWithoutTheLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		paid, left, err := payOut(t.Context(), func(bank *recipe.Store[int], _ int) error {
			return withoutLock(t.Context(), bank, "joint", amount)
		})
		require.NoError(t, err)
		require.Equal(t, machines*amount, paid)
		require.Equal(t, start-amount, left)
	})
}

func TestBalanceIsNotOverdrawnWithTheLock(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		clients, err := open(s)
		require.NoError(t, err)
		for range 5 {
			paid, left, err := payOut(t.Context(), func(bank *recipe.Store[int], i int) error {
				return withdraw(t.Context(), clients[i], bank, "joint", amount)
			})
			require.NoError(t, err)
			require.Equal(t, 90, paid)
			require.Equal(t, 10, left)
		}
	})
}

func TestBalanceIsNotTouchedAfterTheLock(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		clients, err := open(s)
		require.NoError(t, err)
		bank := recipe.NewStore[int](2 * ttl) // Slow enough for the lock to end.
		require.NoError(t, bank.Set(t.Context(), "joint", start))
		done := make(chan error)
		go func() { done <- withdraw(t.Context(), clients[0], bank, "joint", amount) }()
		time.Sleep(time.Second)
		require.NoError(t, s.Kill(3)) // No quorum will extend it.
		require.ErrorIs(t, <-done, redlock.ErrExpired)
		left, err := bank.Get(t.Context(), "joint")
		require.NoError(t, err)
		require.Equal(t, start, left)
	})
}

func TestBalanceRefusesMoreThanThereIs(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		clients, err := open(s)
		require.NoError(t, err)
		err = withdraw(t.Context(), clients[0], recipe.NewStore[int](time.Second), "empty", 1)
		require.ErrorIs(t, err, errNotEnough)
		require.NotErrorIs(t, err, redlock.ErrLost)
	})
}

func TestBalanceRuns(t *testing.T) {
	recipetest.Runs(t, tell)
}
