package waiting

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// A Call describes a call that waits. What is in it is not changed.
type Call struct {
	Resources           []string
	Owner               string
	Since               time.Time // when it began to wait
	Attempts            int       // how many it has made
	Position            int       // see Queue.Position; 0 for one that polls
	Err                 error     // what its last attempt saw
	Holder, HolderOwner string    // of whom it waits for: digest and label
}

// Calls are the calls that wait. The zero value is empty. It is safe for concurrent use.
type Calls struct {
	mu    sync.Mutex // calls nothing
	calls map[*Entry]Call
}

// An Entry is a call's place among them. Only the goroutine of the call uses it.
type Entry struct {
	Queued *Waiter // nil: the call polls
	since  time.Time
}

// Note notes that the call of e waits, or how it does so now.
func (w *Calls) Note(e *Entry, c Call) {
	if e.since.IsZero() {
		e.since = time.Now()
	}
	c.Since = e.since
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = make(map[*Entry]Call)
	}
	w.calls[e] = c
}

// Remove notes that the call of e does not wait any more, if it ever did.
func (w *Calls) Remove(e *Entry) {
	if e.since.IsZero() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.calls, e)
}

// All returns the calls, the longest wait first, with their positions in the queue.
func (w *Calls) All(q *Queue) []Call {
	positions := q.positions()
	w.mu.Lock()
	calls := make([]Call, 0, len(w.calls))
	for e, c := range w.calls {
		c.Position = positions[e.Queued]
		calls = append(calls, c)
	}
	w.mu.Unlock()
	slices.SortFunc(calls, func(a, b Call) int {
		return cmp.Or(a.Since.Compare(b.Since), slices.Compare(a.Resources, b.Resources), cmp.Compare(a.Position, b.Position))
	})
	return calls
}
