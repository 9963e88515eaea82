package waiting

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A release that is passed on by another process is news, though this one has heard of it before.
func TestAPassedReleaseIsNews(t *testing.T) {
	q := NewQueue(3, 2, func(int, string, string, bool) {})
	w := NewWaiter([]any{"x"}, time.Minute)
	q.Join(w)
	q.Begin(w, false)
	for i := range 2 {
		q.Hear(i, "x", "digest-of-D")
	}
	require.False(t, q.State(w).TryAt.IsZero())
	q.Begin(w, false)
	q.Refused(w, errors.New("taken"), "") // By somebody's transient claim; w is in line again.
	q.Hear(0, "x", "digest-of-D")         // Passed on by another process: the resource is free.
	q.Hear(1, "x", "digest-of-D")
	q.Hear(2, "x", "digest-of-D")
	assert.False(t, q.State(w).TryAt.IsZero(), "neither used nor passed on")
}
