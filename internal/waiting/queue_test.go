package waiting

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a waiter was told of goes with the lock that it gets: the next one here keeps no place for it,
// and tells nobody of it.
func TestQueueForgetsWhatAWaiterWasToldOfWhenItGetsTheLock(t *testing.T) {
	var told []string
	q := NewQueue(3, 2, func(_ int, _, digest string, _ bool) { told = append(told, digest) })
	first, next := NewWaiter([]any{"x"}, time.Minute, time.Now()), NewWaiter([]any{"x", "y"}, time.Minute, time.Now())
	q.Join(first)
	q.Join(next)
	q.Begin(first, true)
	for i := range 2 {
		q.Hear(i, "x", "D")
	}
	q.Leave(first, true)
	require.True(t, q.State(next).Head)
	q.Begin(next, true)
	q.Refused(next, errors.New("taken"), "holder")
	assert.Zero(t, q.State(next).KeepUntil)
	q.Leave(next, false)
	assert.Equal(t, slices.Repeat([]string{""}, 6), told, "it leaves the lines of two resources on three nodes")
}

// A release that is passed on by another process is news, though this one has heard of it before.
func TestQueueTakesAPassedReleaseForNews(t *testing.T) {
	q := NewQueue(3, 2, func(int, string, string, bool) {})
	w := NewWaiter([]any{"x"}, time.Minute, time.Now())
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

// What a slow node tells of a release is old news, unless others have told of the same one. Where nobody waits, it is told
// that this process leaves.
func TestQueueHearsASlowNodeOnlyBesideOthers(t *testing.T) {
	var told []string
	q := NewQueue(3, 2, func(_ int, _, digest string, leave bool) { told = append(told, fmt.Sprint(digest, leave)) })
	q.HearLate(0, "x", "A")
	assert.Equal(t, []string{"Atrue"}, told)
	w := NewWaiter([]any{"x"}, time.Minute, time.Now())
	q.Join(w)
	q.Begin(w, false)
	q.HearLate(0, "x", "A")
	assert.True(t, q.State(w).TryAt.IsZero())
	q.Hear(1, "x", "B")
	soon := q.State(w).TryAt
	require.False(t, soon.IsZero())
	q.HearLate(0, "x", "B")
	assert.True(t, q.State(w).TryAt.Before(soon), "no more are waited for")
	assert.Len(t, told, 1)
	q.Leave(w, true)
}
