package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/recipe"
	"github.com/seed6c881748/redlock/examples/internal/recipetest"
	"github.com/seed6c881748/redlock/redlock"
)

func TestQuestionIsTheSameForBothPlayers(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		const rounds = 50
		players, drawn, err := deal(s)
		require.NoError(t, err)
		for n := range rounds {
			dealt, err := ask(players, func(d *dealer) (string, error) {
				return d.question(t.Context(), fmt.Sprint(n))
			})
			require.NoError(t, err)
			require.NotEmpty(t, dealt[0])
			require.Equal(t, dealt[0], dealt[1])
		}
		require.EqualValues(t, rounds, drawn.Load(), "one draw per round")
	})
}

func TestQuestionsDifferWithoutTheLock(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		players, _, err := deal(s)
		require.NoError(t, err)
		dealt, err := ask(players, func(d *dealer) (string, error) { return d.withoutLock(t.Context(), "1") })
		require.NoError(t, err)
		require.NotEqual(t, dealt[0], dealt[1])
	})
}

func TestQuestionThatIsThereTakesNoLock(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		players, _, err := deal(s)
		require.NoError(t, err)
		first, err := players[0].question(t.Context(), "1")
		require.NoError(t, err)
		require.NoError(t, s.Kill(5))
		second, err := players[1].question(t.Context(), "1")
		require.NoError(t, err)
		require.Equal(t, first, second)
	})
}

func TestQuestionIsNotStoredWhenTheLockIsLost(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		players, _, err := deal(s)
		require.NoError(t, err)
		d := players[0]
		d.draw = func() string {
			// Without a quorum that extends it, the lock ends before the drawing does.
			require.NoError(t, s.Kill(3))
			require.NoError(t, recipe.Sleep(t.Context(), 2*ttl))
			return "too late"
		}
		_, err = d.question(t.Context(), "1")
		require.ErrorIs(t, err, redlock.ErrLost)
		q, err := d.questions.Get(context.Background(), "1")
		require.NoError(t, err)
		require.Empty(t, q)
	})
}

func TestQuestionRuns(t *testing.T) {
	recipetest.Runs(t, tell)
}
