package waiting

import (
	"slices"
	"time"
)

// A Search is for all callers in line for the slots of a semaphore, from when the first of them comes until nobody is
// left. It is a number of calls of Lock, each on a slot of its own, which go on until they have it.
//
// It begins with one call for each caller. To wait for a slot costs a few requests to each node, which is more than a
// slot is worth that is held for moments. So each refusal adds only two calls, until there are as many as eager says.
// If that was not enough, the calls become three times as many whenever the time of patience is over, until each slot
// has one.
type Search struct {
	asked []bool // by slot: a call of Lock wants it
	calls int    // how many do
}

const (
	eager = 5

	// Patience is how often Widen is called.
	Patience = 50 * time.Millisecond
)

// NewSearch returns one for so many slots.
func NewSearch(slots int) *Search { return &Search{asked: make([]bool, slots)} }

// Ask has up to n more calls want a slot, of those that are not asked for, in this order. It returns these.
func (s *Search) Ask(n int, order []int) (slots []int) {
	for _, slot := range order {
		if len(slots) < n && !s.asked[slot] {
			s.asked[slot] = true
			slots = append(slots, slot)
		}
	}
	s.calls += len(slots)
	return slots
}

// Refused is how many more calls there are to be after an attempt that was refused.
func (s *Search) Refused() int {
	if s.calls < eager {
		return 2
	}
	return 0
}

// Widen is how many more there are to be when the time of patience is over; 0: never any more.
func (s *Search) Widen() int {
	if s.calls == len(s.asked) {
		return 0
	}
	return 2 * s.calls
}

// Done is called when the call for a slot has ended.
func (s *Search) Done(slot int) {
	s.asked[slot] = false
	s.calls--
}

// Order returns slots as a semaphore asks for them: at random, as they are given, but last those of its own process.
func Order(random []int, isOwn func(slot int) bool) (slots []int) {
	var own []int
	for _, slot := range random {
		if isOwn(slot) {
			own = append(own, slot)
		} else {
			slots = append(slots, slot)
		}
	}
	return slices.Concat(slots, own)
}
