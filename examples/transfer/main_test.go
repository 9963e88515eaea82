package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/examples/internal/stagetest"
	"github.com/seed6c881748/redlock/redlock"
)

// requireBalances looks at both accounts.
func requireBalances(t *testing.T, bank *stage.Store[int], a, b int) {
	t.Helper()
	require.Equal(t, a, stage.Got(bank.Get(t.Context(), ann)))
	require.Equal(t, b, stage.Got(bank.Get(t.Context(), bob)))
}

func TestTransferIsAllOrNothing(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		r, bank := open(s, 1)[0], newBank(t.Context(), ttl)
		require.ErrorIs(t, transfer(t.Context(), r, bank, ann, bob, start+1), errNotEnough)
		require.NoError(t, transfer(t.Context(), r, bank, ann, ann, 10))

		done := make(chan error)
		go func() { done <- transfer(t.Context(), r, bank, ann, bob, 10) }()
		time.Sleep(time.Second)
		s.Kill(3) // The lock ends while the accounts are read.
		require.ErrorIs(t, <-done, redlock.ErrLost)
		requireBalances(t, bank, start, start)
	})
}

func TestTransferExcludesThoseOfEitherAccount(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		clients, bank := open(s, 2), newBank(t.Context(), time.Second)
		done := make(chan error)
		go func() { done <- transfer(t.Context(), clients[0], bank, ann, bob, 10) }()
		synctest.Wait() // It has the lock and waits for the bank.
		for _, account := range []string{ann, bob} {
			_, err := clients[1].TryLock(t.Context(), []string{account}, ttl)
			require.ErrorIs(t, err, redlock.ErrTaken)
		}
		require.NoError(t, <-done)
		requireBalances(t, bank, start-10, start+10)
	})
}

// Transfers in both directions do not deadlock, and one lock after the other does.
func TestTransferRuns(t *testing.T) { stagetest.Runs(t, tell) }
