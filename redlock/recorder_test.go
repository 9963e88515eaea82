package redlock_test

import (
	"context"
	"slices"
	"sync"

	"github.com/seed6c881748/redlock/redlock"
)

// recorder is a hook that keeps what it is told.
type recorder struct {
	mu     sync.Mutex
	events []redlock.Event
}

func (r *recorder) hook(_ context.Context, e redlock.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// take returns the events so far of rounds, waiting and nodes, without those of nodes
// coming up, and forgets all.
func (r *recorder) take() []redlock.Event {
	return slices.DeleteFunc(r.takeAll(), func(e redlock.Event) bool {
		return e.Kind == redlock.EventNodeUp || slices.Contains(lifeEvents, e.Kind)
	})
}

// takeLife returns how calls and holds have ended so far, and forgets all.
func (r *recorder) takeLife() []redlock.Event {
	return slices.DeleteFunc(r.takeAll(), func(e redlock.Event) bool { return !slices.Contains(lifeEvents, e.Kind) })
}

func (r *recorder) takeAll() []redlock.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}

// lifeEvents are those that tell how calls and holds have ended.
var lifeEvents = []redlock.EventKind{redlock.EventAcquired, redlock.EventNotAcquired, redlock.EventExtended, redlock.EventReleased, redlock.EventHoldEnded, redlock.EventDone}

func kinds(events []redlock.Event) (kinds []redlock.EventKind) {
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}
