package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/examples/internal/stagetest"
	"github.com/seed6c881748/redlock/redlock"
)

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
		require.Equal(t, start, stage.Got(bank.Get(t.Context(), ann)))
		require.Equal(t, start, stage.Got(bank.Get(t.Context(), bob)))
	})
}

// Transfers in both directions do not deadlock, and one lock after the other does.
func TestTransferRuns(t *testing.T) { stagetest.Runs(t, tell) }
