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
	HolderSince         time.Time // when one of the calls that wait now was first refused for that holder
}

// Calls are the calls that wait, in the order in which they began to. The zero value is empty. It is safe for
// concurrent use.
type Calls struct {
	mu          sync.Mutex // calls nothing
	first, last *Entry
	len         int
	holders     map[string]*holder // by digest: those of whom calls were told
}

// An Entry is a call's place among them. Only the goroutine of the call uses it.
type Entry struct {
	Queued *Waiter // nil: the call polls

	// Guarded by Calls.mu, but that only the call's goroutine sets waits.
	waits      bool
	prev, next *Entry
	call       Call
	noted      time.Time // when the call was noted last
	holder     *holder   // the last one that it was told of; nil: of none yet
}

// A holder is one for whom calls were refused.
type holder struct {
	digest string
	since  time.Time // when the first of them was
	calls  int       // how many were told of it last
}

// Note notes that the call of e waits, or how it does so now.
func (w *Calls) Note(e *Entry, c Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	c.Since = e.call.Since
	if !e.waits {
		e.waits, c.Since = true, now
		w.add(e)
	}
	// After an attempt that saw no holder, the next one may find the same.
	if c.Holder != "" && (e.holder == nil || e.holder.digest != c.Holder) {
		w.leave(e.holder)
		e.holder = w.join(c.Holder, now)
	}
	e.call, e.noted = c, now
}

// Remove notes that the call of e does not wait any more, if it ever did.
func (w *Calls) Remove(e *Entry) {
	if !e.waits {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.waits = false
	w.leave(e.holder)
	e.holder = nil
	w.remove(e)
}

// join adds a call to those that were told of a holder. w.mu is held.
func (w *Calls) join(digest string, now time.Time) *holder {
	if w.holders == nil {
		w.holders = make(map[string]*holder)
	}
	h := w.holders[digest]
	if h == nil {
		h = &holder{digest: digest, since: now}
		w.holders[digest] = h
	}
	h.calls++
	return h
}

// leave takes one away; h may be nil. w.mu is held.
func (w *Calls) leave(h *holder) {
	if h == nil {
		return
	}
	if h.calls--; h.calls == 0 {
		delete(w.holders, h.digest)
	}
}

func (w *Calls) add(e *Entry) {
	if e.prev = w.last; e.prev != nil {
		e.prev.next = e
	} else {
		w.first = e
	}
	w.last = e
	w.len++
}

func (w *Calls) remove(e *Entry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		w.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		w.last = e.prev
	}
	e.prev, e.next = nil, nil
	w.len--
}

// Oldest is for how long the longest of the calls has waited; 0 if none waits. It costs the same for any number.
func (w *Calls) Oldest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == nil {
		return 0
	}
	return time.Since(w.first.call.Since)
}

// All returns the calls, the longest wait first, with how they stand in the queue. Those behind others ask seldom or
// never: what somebody ahead was answered since stands for what they have seen, as see writes it into a call.
func (w *Calls) All(q *Queue, see func(c *Call, answer error)) []Call {
	standings := q.standings()
	w.mu.Lock()
	calls := make([]Call, 0, w.len)
	for e := w.first; e != nil; e = e.next {
		c, s := e.call, standings[e.Queued]
		c.Position = s.position
		if s.answer != nil && s.at.After(e.noted) {
			see(&c, s.answer)
		}
		if h := w.holders[c.Holder]; h != nil {
			c.HolderSince = h.since
		} else if c.Holder != "" {
			c.HolderSince = s.at // The call that was told so has not noted it yet.
		}
		calls = append(calls, c)
	}
	w.mu.Unlock()
	slices.SortFunc(calls, func(a, b Call) int {
		return cmp.Or(a.Since.Compare(b.Since), slices.Compare(a.Resources, b.Resources), cmp.Compare(a.Position, b.Position))
	})
	return calls
}

// A standing is how a waiter stands in its lines.
type standing struct {
	position int       // see Queue.Position
	answer   error     // what the nodes have last answered somebody in a line in which it is behind; nil: nothing
	at       time.Time // when that was
}

// standings returns how every waiter stands, by a single look at each line.
func (q *Queue) standings() map[*Waiter]standing {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make(map[*Waiter]standing)
	for _, g := range q.byKey {
		n := 0
		for e := g.line.Front(); e != nil; e = e.Next() {
			n = min(n+1, maxPosition)
			w := e.Value.(*Waiter)
			s := all[w]
			s.position = max(s.position, n)
			if n > 1 && g.answer != nil && g.answered.After(s.at) {
				s.answer, s.at = g.answer, g.answered
			}
			all[w] = s
		}
	}
	return all
}
