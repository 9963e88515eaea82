// Package stagetest plays on a stage in fake time.
package stagetest

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/stage"
)

// InBubble plays on nodes in fake time, beside other tests.
func InBubble(t *testing.T, play func(t *testing.T, s *stage.Stage)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, stage.Run(t.Context(), t.Output(), func(_ context.Context, s *stage.Stage) { play(t, s) }))
	})
}

// Runs plays a story, which checks what it tells.
func Runs(t *testing.T, tell func(ctx context.Context, s *stage.Stage)) {
	t.Helper()
	InBubble(t, func(t *testing.T, s *stage.Stage) {
		t.Helper()
		tell(t.Context(), s)
	})
}
