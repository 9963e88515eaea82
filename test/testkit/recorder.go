package testkit

import (
	"context"
	"slices"
	"sync"

	"github.com/seed6c881748/redlock/redlock"
)

// A Recorder keeps what its Hook is told.
type Recorder struct {
	mu     sync.Mutex
	events []redlock.Event
}

// Hook is for [redlock.WithHook].
func (r *Recorder) Hook(_ context.Context, e redlock.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// Take returns the events so far of rounds, waiting and nodes, without those of nodes coming up,
// and forgets all.
func (r *Recorder) Take() []redlock.Event {
	return slices.DeleteFunc(r.TakeAll(), func(e redlock.Event) bool {
		return e.Kind == redlock.EventNodeUp || slices.Contains(lifeEvents, e.Kind)
	})
}

// TakeLife returns how calls and holds have ended so far, and forgets all.
func (r *Recorder) TakeLife() []redlock.Event {
	return slices.DeleteFunc(r.TakeAll(), func(e redlock.Event) bool { return !slices.Contains(lifeEvents, e.Kind) })
}

// TakeOf returns the events so far of one kind, and forgets all.
func (r *Recorder) TakeOf(kind redlock.EventKind) []redlock.Event {
	return slices.DeleteFunc(r.TakeAll(), func(e redlock.Event) bool { return e.Kind != kind })
}

// TakeAll returns all events so far, and forgets them.
func (r *Recorder) TakeAll() []redlock.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}

// lifeEvents are those that tell how calls and holds have ended.
var lifeEvents = []redlock.EventKind{
	redlock.EventAcquired, redlock.EventNotAcquired, redlock.EventExtended,
	redlock.EventReleased, redlock.EventHoldEnded, redlock.EventDone,
}

// Kinds returns the kinds of events.
func Kinds(events []redlock.Event) (kinds []redlock.EventKind) {
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}
