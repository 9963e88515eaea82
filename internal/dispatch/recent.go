package dispatch

import (
	"slices"
	"sync"
)

// RecentSize is how many events a Recent keeps.
const RecentSize = 64

// A Recent keeps the last events that were added. The zero value is empty. It is safe for concurrent use.
type Recent[E any] struct {
	mu     sync.Mutex // calls nothing, so that events may be added with any other held
	events []E
	next   int // the place of the next event when all are taken
}

// Add adds an event, in the place of the oldest one if there are RecentSize.
func (r *Recent[E]) Add(e E) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) < RecentSize {
		r.events = append(r.events, e)
		return
	}
	r.events[r.next] = e
	r.next = (r.next + 1) % RecentSize
}

// All returns the events, the oldest first.
func (r *Recent[E]) All() []E {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.events[r.next:], r.events[:r.next])
}
