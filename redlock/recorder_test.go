package redlock

import (
	"context"
	"slices"
	"sync"
)

// recorder is a hook that keeps what it is told.
type recorder struct {
	mu     sync.Mutex
	events []Event
}

func (r *recorder) hook(_ context.Context, e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// take returns the events so far of rounds, waiting and nodes, without those of nodes
// coming up, and forgets all.
func (r *recorder) take() []Event {
	return slices.DeleteFunc(r.takeAll(), func(e Event) bool { return e.Kind == EventNodeUp || slices.Contains(lifeEvents, e.Kind) })
}

// takeLife returns how calls and holds have ended so far, and forgets all.
func (r *recorder) takeLife() []Event {
	return slices.DeleteFunc(r.takeAll(), func(e Event) bool { return !slices.Contains(lifeEvents, e.Kind) })
}

func (r *recorder) takeAll() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}

// lifeEvents are those that tell how calls and holds have ended.
var lifeEvents = []EventKind{EventAcquired, EventNotAcquired, EventExtended, EventReleased, EventHoldEnded, EventDone}

func kinds(events []Event) (kinds []EventKind) {
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}
