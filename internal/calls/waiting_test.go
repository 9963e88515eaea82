package calls

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

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
