package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/examples/internal/stagetest"
	"github.com/seed6c881748/redlock/redlock"
)

func TestQuestionIsNotStoredWhenTheLockIsLost(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		players, _ := deal(s)
		d := players[0]
		d.draw = func() string {
			// Without a quorum that extends it, the lock ends before the drawing does.
			s.Kill(3)
			require.NoError(t, stage.Sleep(t.Context(), 2*ttl))
			return "too late"
		}
		_, err := d.question(t.Context(), "1")
		require.ErrorIs(t, err, redlock.ErrLost)
		require.Empty(t, stage.Got(d.questions.Get(context.Background(), "1")))
	})
}

// Both players have the same question with the lock, and others without.
func TestQuestionRuns(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		tell(t.Context(), s)
		players, drawn := deal(s)
		ask(players, func(d *dealer) (string, error) { return d.withoutLock(t.Context(), "1") })
		require.EqualValues(t, 2, drawn.Load())
	})
}
