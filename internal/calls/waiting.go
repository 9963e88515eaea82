package calls

import (
	"cmp"
	"container/list"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/waiting"
)

// A Call describes a call that waits for a lock. Its contents are not changed.
type Call struct {
	Resources           []string
	Owner               string
	Since               time.Time // when it, or the caller on whose behalf it waits, began to wait
	Attempts            int       // attempts made so far
	Position            int       // see waiting.Queue.Position; 0 for one that polls
	Err                 error     // what its last attempt saw
	Holder, HolderOwner string    // the holder that it waits for: digest and label
	HolderSince         time.Time // when one of the calls that wait now was first refused for that holder
}

// Waiting are the calls that wait for a lock. The zero value is empty. It is safe for concurrent use.
type Waiting struct {
	mu sync.Mutex // calls nothing

	// Entries, in the order in which their calls began to wait: own for calls that wait for themselves, onBehalf for
	// the few that wait for others.
	own, onBehalf list.List

	holders map[string]*holder // by digest: the holders that calls were told of
}

// A Since is when the longest-waiting caller of a shared search began; nil inside: none waits. The search may go on
// while its callers get what they wait for, one after the other.
type Since = atomic.Pointer[time.Time]

// An Entry is a call's place among the waiting calls. Only the goroutine of the call uses it.
type Entry struct {
	Queued   *waiting.Waiter // nil: the call polls
	OnBehalf *Since          // nil: the call waits for itself

	// Guarded by Waiting.mu, except that only the call's goroutine sets place.
	place  *list.Element // nil: the call does not wait
	call   Call
	noted  time.Time // when the call was noted last
	holder *holder   // the last holder that the call was told of; nil: none yet
}

// A holder is a token for whose lock calls were refused.
type holder struct {
	digest string
	since  time.Time // when the first of the calls was refused
	calls  int       // how many calls were told of it last
}

// Note notes that the call of e waits, or its latest state.
func (w *Waiting) Note(e *Entry, c Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	c.Since = e.call.Since
	if e.place == nil {
		e.place, c.Since = w.among(e).PushBack(e), now
	}
	// After an attempt that saw no holder, the next one may find the same.
	if c.Holder != "" && (e.holder == nil || e.holder.digest != c.Holder) {
		w.leave(e.holder)
		e.holder = w.join(c.Holder, now)
	}
	e.call, e.noted = c, now
}

// Remove notes that the call of e does not wait any longer, if it ever did.
func (w *Waiting) Remove(e *Entry) {
	if e.place == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leave(e.holder)
	w.among(e).Remove(e.place)
	e.holder, e.place = nil, nil
}

func (w *Waiting) among(e *Entry) *list.List {
	if e.OnBehalf != nil {
		return &w.onBehalf
	}
	return &w.own
}

// since returns since when somebody waits by the call. Waiting.mu is held.
func (e *Entry) since() time.Time {
	if e.OnBehalf != nil {
		if t := e.OnBehalf.Load(); t != nil {
			return *t
		}
	}
	return e.call.Since
}

// join adds a call to those that were told of a holder. w.mu is held.
func (w *Waiting) join(digest string, now time.Time) *holder {
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

// leave takes away one of the calls that were told of h, which may be nil. w.mu is held.
func (w *Waiting) leave(h *holder) {
	if h == nil {
		return
	}
	if h.calls--; h.calls == 0 {
		delete(w.holders, h.digest)
	}
}

// Oldest returns how long the longest of the calls has waited; 0 if none waits. Its cost does not grow with the calls
// that wait for themselves.
func (w *Waiting) Oldest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	oldest := time.Duration(0)
	if e := w.own.Front(); e != nil {
		oldest = time.Since(e.Value.(*Entry).call.Since)
	}
	for e := w.onBehalf.Front(); e != nil; e = e.Next() {
		oldest = max(oldest, time.Since(e.Value.(*Entry).since()))
	}
	return oldest
}

// All returns the calls, the longest wait first, with their places in the queue. Calls further back ask seldom or
// never. So the latest answer to a call ahead of one stands for what it has seen: see writes that answer into it.
func (w *Waiting) All(line *Line, see func(c *Call, answer error)) []Call {
	var standings map[*waiting.Waiter]waiting.Standing
	line.Do(func(q *waiting.Queue, _ time.Time) { standings = q.Standings() })
	w.mu.Lock()
	calls := make([]Call, 0, w.own.Len()+w.onBehalf.Len())
	for _, all := range []*list.List{&w.own, &w.onBehalf} {
		for at := all.Front(); at != nil; at = at.Next() {
			e := at.Value.(*Entry)
			c, s := e.call, standings[e.Queued]
			c.Position, c.Since = s.Position, e.since()
			if s.Answer != nil && s.At.After(e.noted) {
				see(&c, s.Answer)
			}
			if h := w.holders[c.Holder]; h != nil {
				c.HolderSince = h.since
			} else if c.Holder != "" {
				c.HolderSince = s.At // The call with that answer has not noted it yet.
			}
			calls = append(calls, c)
		}
	}
	w.mu.Unlock()
	slices.SortFunc(calls, func(a, b Call) int {
		return cmp.Or(a.Since.Compare(b.Since), slices.Compare(a.Resources, b.Resources), cmp.Compare(a.Position, b.Position))
	})
	return calls
}
