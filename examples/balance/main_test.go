package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/examples/internal/stagetest"
	"github.com/seed6c881748/redlock/redlock"
)

func TestBalanceIsNotTouchedAfterTheLock(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		bank := stage.NewStore[int](2 * ttl) // Slow enough for the lock to end.
		require.NoError(t, bank.Set(t.Context(), "joint", start))
		done := make(chan error)
		go func() { done <- withdraw(t.Context(), open(s)[0], bank, "joint", amount) }()
		time.Sleep(time.Second)
		s.Kill(3) // No quorum will extend it.
		require.ErrorIs(t, <-done, redlock.ErrExpired)
		require.Equal(t, start, stage.Got(bank.Get(t.Context(), "joint")))
	})
}

// It is overdrawn without the lock, and not with it.
func TestBalanceRuns(t *testing.T) { stagetest.Runs(t, tell) }
