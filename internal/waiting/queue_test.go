package waiting

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func waiter(keys ...any) *Waiter { return NewWaiter(keys, time.Minute, time.Now(), func() {}) }

// What a slow node tells of a release is old news, unless others have told of the same one. Where nobody waits, it is told
// that this process leaves.
func TestQueueHearsASlowNodeOnlyBesideOthers(t *testing.T) {
	q, now := NewQueue(3, 2, rand.N), time.Now()
	q.HearLate(0, "x", "A", now)
	assert.Equal(t, []Pass{{Key: "x", Digest: "A", Leave: true}}, q.Passes())
	w := waiter("x")
	q.Join(w, now)
	q.Begin(w, false)
	q.HearLate(0, "x", "A", now)
	assert.True(t, q.State(w).TryAt.IsZero())
	q.Hear(1, "x", "B", now)
	soon := q.State(w).TryAt
	require.False(t, soon.IsZero())
	q.HearLate(0, "x", "B", now)
	assert.True(t, q.State(w).TryAt.Before(soon), "no more are waited for")
	assert.Empty(t, q.Passes())
}

// A waiter that leaves before it has asked may have heard of a release that was meant for one before it: the next is told.
func TestQueueTellsTheNextOfWhatWasMeantForOneThatHasLeft(t *testing.T) {
	q, now := NewQueue(1, 1, rand.N), time.Now()
	w := waiter("x")
	q.Join(w, now)
	q.Hear(0, "x", "A", now)
	q.Leave(w, false, now)
	assert.Equal(t, []Pass{{Key: "x", Digest: "A", Leave: true}}, q.Passes())
}
