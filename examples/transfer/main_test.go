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

func TestTransfersInBothDirectionsDoNotDeadlock(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		clients, err := open(s, 10)
		require.NoError(t, err)
		bank, err := newBank(t.Context(), 50*time.Millisecond)
		require.NoError(t, err)
		require.NoError(t, cross(t.Context(), clients, bank))
		a, b, err := balances(t.Context(), bank)
		require.NoError(t, err)
		require.Equal(t, []int{start, start}, []int{a, b})
	})
}

func TestTransfersOneLockAfterTheOtherDeadlock(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		clients, err := open(s, 2)
		require.NoError(t, err)
		patience := 20 * time.Second
		if testing.Short() {
			patience = 5 * time.Second
		}
		for _, err := range deadlock(t.Context(), clients, patience) {
			require.ErrorIs(t, err, redlock.ErrTaken)
		}
	})
}

func TestTransferIsAllOrNothing(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		clients, err := open(s, 1)
		require.NoError(t, err)
		bank, err := newBank(t.Context(), ttl)
		require.NoError(t, err)

		require.ErrorIs(t, transfer(t.Context(), clients[0], bank, ann, bob, start+1), errNotEnough)
		require.NoError(t, transfer(t.Context(), clients[0], bank, ann, ann, 10))

		done := make(chan error)
		go func() { done <- transfer(t.Context(), clients[0], bank, ann, bob, 10) }()
		time.Sleep(time.Second)
		require.NoError(t, s.Kill(3)) // The lock ends while the accounts are read.
		require.ErrorIs(t, <-done, redlock.ErrLost)

		a, b, err := balances(t.Context(), bank)
		require.NoError(t, err)
		require.Equal(t, []int{start, start}, []int{a, b})
	})
}

func TestTransferExcludesThoseOfEitherAccount(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		clients, err := open(s, 2)
		require.NoError(t, err)
		bank, err := newBank(t.Context(), time.Second)
		require.NoError(t, err)
		done := make(chan error)
		go func() { done <- transfer(t.Context(), clients[0], bank, ann, bob, 10) }()
		synctest.Wait() // It has the lock and waits for the bank.
		for _, account := range []string{ann, bob} {
			_, err = clients[1].TryLock(t.Context(), []string{account}, ttl)
			require.ErrorIs(t, err, redlock.ErrTaken)
		}
		require.NoError(t, <-done)
		a, b, err := balances(t.Context(), bank)
		require.NoError(t, err)
		require.Equal(t, []int{start - 10, start + 10}, []int{a, b})
	})
}

func TestTransferRuns(t *testing.T) {
	recipetest.Runs(t, tell)
}
