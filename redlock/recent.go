package redlock

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/dispatch"
)

// RecentEvents returns the latest events that tell of something out of the ordinary, at most 64 of
// nodes and 64 of calls, in the order in which they happened. They are kept whether there is a hook
// or not, so that whoever comes to look after something went wrong finds what it was. They are
//
//   - all events of nodes, EventOverloaded and EventHoldAtRisk;
//   - EventHoldEnded, EventReleased and EventExtended with an error;
//   - EventNotAcquired for lack of a quorum; not for a lock that was taken, nor for a call that was
//     turned away.
//
// Of EventNotAcquired and of EventExtended, there is one a second at most. Without a hook, Call is 0
// in all of them, and Took is 0 in EventNotAcquired. RecentEvents does no I/O, and may also be called
// after Close. What it returns belongs to the caller.
func (r *Redlock) RecentEvents() []Event {
	must(r.invalid())
	return r.recent.all()
}

// isNotable reports whether an event is one that RecentEvents is to show. It must say no to what
// happens in ordinary work: without a hook, such events are not even made.
func isNotable(kind EventKind, err error) bool {
	switch kind {
	case EventNodeUp, EventNodeDown, EventNodeCleaned, EventPolling, EventOverloaded, EventHoldAtRisk:
		return true
	case EventHoldEnded, EventReleased, EventExtended:
		return err != nil
	case EventNotAcquired:
		return errors.Is(err, ErrNoQuorum) && !isOverload(err)
	case EventDecided, EventSettled, EventAcquired, EventDone, EventWaiting:
		return false
	default:
		return false
	}
}

// recentEvents are the notable events of late. The zero value is empty.
type recentEvents struct {
	notAcquired, extended dispatch.Limiter

	mu    sync.Mutex // last: events are sent with any other held
	nodes eventRing  // of their own, as a node's loss is followed by many events of calls
	calls eventRing
}

// recentEvery is the least time between two events of a kind that may come in thousands while nodes
// are away. What else may do so, the losses of locks, is worth showing.
const recentEvery = time.Second

// keep keeps a copy of the event if it is notable.
func (k *recentEvents) keep(e *Event) {
	if !isNotable(e.Kind, e.Err) {
		return
	}
	pass := true
	switch e.Kind {
	case EventNotAcquired:
		_, pass = k.notAcquired.Pass(e.Time, recentEvery)
	case EventExtended:
		_, pass = k.extended.Pass(e.Time, recentEvery)
	}
	if !pass {
		return
	}
	c := e.clone()
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.Node != "" {
		k.nodes.add(c)
	} else {
		k.calls.add(c)
	}
}

func (k *recentEvents) all() []Event {
	k.mu.Lock()
	events := append(k.nodes.all(), k.calls.all()...)
	k.mu.Unlock()
	for i := range events {
		events[i] = events[i].clone()
	}
	slices.SortStableFunc(events, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return events
}

// clone returns the event with slices and an error of its own.
func (e *Event) clone() Event {
	c := *e
	c.Resources, c.Votes = slices.Clone(e.Resources), slices.Clone(e.Votes)
	if qe, ok := e.Err.(*QuorumError); ok { //nolint:errorlint // One that is wrapped stays as it is: the wrapping is not the caller's.
		c.Err = qe.clone()
	}
	return c
}

// recentSize is how many events a ring keeps.
const recentSize = 64

// An eventRing keeps the last events.
type eventRing struct {
	events []Event
	next   int // where the next one goes when the ring is full
}

func (r *eventRing) add(e Event) {
	if len(r.events) < recentSize {
		r.events = append(r.events, e)
		return
	}
	r.events[r.next] = e
	r.next = (r.next + 1) % recentSize
}

// all returns the events, the oldest first.
func (r *eventRing) all() []Event {
	return append(slices.Clone(r.events[r.next:]), r.events[:r.next]...)
}
