package waiting

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func waiter(keys ...any) *Waiter { return NewWaiter(keys, time.Minute, time.Now(), func() {}) }

// What a waiter was told of goes with the lock that it gets: the next one here keeps no place for it,
// and tells nobody of it.
func TestQueueForgetsWhatAWaiterWasToldOfWhenItGetsTheLock(t *testing.T) {
	q, now := NewQueue(3, 2, rand.N), time.Now()
	first, next := waiter("x"), waiter("x", "y")
	q.Join(first, now)
	q.Join(next, now)
	q.Begin(first, true)
	for i := range 2 {
		q.Hear(i, "x", "D", now)
	}
	q.Leave(first, true, now)
	require.True(t, q.State(next).Head)
	q.Begin(next, true)
	q.Refused(next, errors.New("taken"), "holder", now)
	assert.Zero(t, q.State(next).KeepUntil)
	q.Leave(next, false, now)
	var want []Pass // It leaves the lines of two resources on three nodes.
	for _, key := range []string{"x", "y"} {
		for i := range 3 {
			want = append(want, Pass{Node: i, Key: key, Leave: true})
		}
	}
	assert.Equal(t, want, q.Passes())
}

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

// Between the look whether somebody listens and the attempt, a head may be told that it can get in line now.
func TestQueueDoesNotForgetThatAHeadCanGetInLine(t *testing.T) {
	q, now := NewQueue(1, 1, rand.N), time.Now()
	w := waiter("x")
	q.Join(w, now)
	q.Listening()
	q.Begin(w, false)
	assert.True(t, q.State(w).Now)
	q.Begin(w, true)
	assert.False(t, q.State(w).Now)
}
