// Package recipetest has what the tests of the recipes share.
package recipetest

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/recipe"
	"github.com/seed6c881748/redlock/redlock"
)

// InBubble plays on nodes in fake time, beside other tests.
func InBubble(t *testing.T, play func(t *testing.T, s *recipe.Stage)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		play(t, recipe.Bubble(t))
	})
}

// Clients returns a Redlock for each of n processes.
func Clients(t *testing.T, s *recipe.Stage, n int) []*redlock.Redlock {
	t.Helper()
	clients, err := s.Clients(n)
	require.NoError(t, err)
	return clients
}

// Client returns the Redlock of one.
func Client(t *testing.T, s *recipe.Stage, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	r, err := s.Client(opts...)
	require.NoError(t, err)
	return r
}

// Runs plays a recipe as its reader does.
func Runs(t *testing.T, tell func(ctx context.Context, s *recipe.Stage) error) {
	t.Helper()
	t.Parallel()
	require.NoError(t, recipe.Run(t.Context(), t.Output(), tell))
}
