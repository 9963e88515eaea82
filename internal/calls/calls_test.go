package calls

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/waiting"
)

var errEnd = errors.New("end")

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestGroupCloseWaitsForWhatIsRunning(t *testing.T) {
	g := New(errEnd)
	require.NoError(t, g.Enter())
	require.NoError(t, g.Enter())
	g.Exit()
	assert.False(t, closed(g.Closing))
	assert.True(t, g.Close())
	assert.False(t, g.Close(), "a second time")
	assert.True(t, closed(g.Closing))
	assert.False(t, closed(g.Quiet), "one is running")
	require.Equal(t, errEnd, g.Enter())
	g.Exit()
	assert.True(t, closed(g.Quiet))
}

func TestGroupWithoutCallsIsQuietAtOnce(t *testing.T) {
	g := New(errEnd)
	require.NoError(t, g.Enter())
	g.Exit()
	assert.False(t, closed(g.Quiet), "before Close")
	g.Close()
	assert.True(t, closed(g.Quiet))
}

func TestGroupWaitsEndWithTheContextAndWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(errEnd)
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		require.NoError(t, g.Ended(ctx))
		require.NoError(t, g.Sleep(ctx, time.Hour))
		assert.Equal(t, time.Hour, time.Since(start))
		time.AfterFunc(time.Second, cancel)
		require.Equal(t, context.Canceled, g.Sleep(ctx, time.Hour))
		require.Equal(t, context.Canceled, g.Ended(ctx))
		time.AfterFunc(time.Second, func() { g.Close() })
		require.Equal(t, errEnd, g.Sleep(t.Context(), time.Hour))
		require.Equal(t, errEnd, g.Ended(ctx), "before the context's")
	})
}

// What is passed on goes ahead of the requests of those that come later: before it has gone, nobody else uses the line. A
// pass that leaves the nodes' lines would take the place of a call of this process that has got in line since.
func TestLinePassesBeforeAnybodyElseUsesIt(t *testing.T) {
	passed := 0
	var l *Line
	l = NewLine(1, 1, func(waiting.Pass) {
		passed++
		if !assert.False(t, l.mu.TryLock(), "somebody else may use the line") {
			l.mu.Unlock()
		}
	})
	l.Do(func(q *waiting.Queue, now time.Time) {
		w := waiting.NewWaiter([]any{"x"}, time.Second, now, func() {})
		q.Join(w, now)
		q.Begin(w, true)
		q.Leave(w, false, now)
	})
	assert.Equal(t, 1, passed)
}

// Calls come and go in any order: the oldest is always the first that is left.
func TestCallsKnowTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewLine(3, 2, nil)
		for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}} {
			var calls Waiting
			entries := make([]Entry, 3)
			for i := range entries {
				calls.Remove(&entries[i]) // It has not waited.
				calls.Note(&entries[i], Call{Attempts: 1})
				time.Sleep(time.Second)
				calls.Note(&entries[i], Call{Attempts: 2})
			}
			left := []int{0, 1, 2}
			for _, i := range order {
				assert.Equal(t, time.Duration(3-left[0])*time.Second, calls.Oldest(), order)
				calls.Remove(&entries[i])
				var want []int
				for _, j := range left {
					if j != i {
						want = append(want, j)
					}
				}
				left = want
				all := calls.All(q, nil)
				assert.Len(t, all, len(left))
				for k, c := range all {
					assert.Equal(t, entries[left[k]].call.Since, c.Since, order)
					assert.Equal(t, 2, c.Attempts)
				}
			}
			assert.Zero(t, calls.Oldest())
			calls.Note(&entries[0], Call{}) // Again.
			assert.Len(t, calls.All(q, nil), 1)
		}
	})
}

// A holder is known from the first call that was refused for it to the last one.
func TestCallsKnowSinceWhenAHolderHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewLine(3, 2, nil)
		start := time.Now()
		var calls Waiting
		var a, b Entry
		since := func(want ...time.Duration) {
			t.Helper()
			var got []time.Duration
			for _, c := range calls.All(q, nil) {
				if c.HolderSince.IsZero() {
					got = append(got, -1)
				} else {
					got = append(got, c.HolderSince.Sub(start))
				}
			}
			assert.Equal(t, want, got)
		}
		tick := func() { time.Sleep(time.Nanosecond) }
		calls.Note(&a, Call{})
		tick()
		calls.Note(&a, Call{Holder: "h"})
		tick()
		calls.Note(&b, Call{Holder: "h"})
		since(1, 1)
		tick()
		calls.Note(&b, Call{})
		since(1, -1)
		calls.Remove(&a)
		since(-1)
		calls.Note(&b, Call{Holder: "h"})
		since(1)
		tick()
		calls.Note(&b, Call{Holder: "g"})
		since(4)
		tick()
		calls.Note(&b, Call{Holder: "h"})
		since(5)
		calls.Remove(&b)
		assert.Empty(t, calls.holders)
	})
}
