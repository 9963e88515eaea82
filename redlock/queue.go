package redlock

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

// A queue has the calls of Lock that wait in this process, resource by resource in
// the order of their arrival. A waiter enters the lines of all its resources in one step, so
// that two of them can never wait for each other, and is a head when it is first in
// all of them. Only heads talk to the nodes.
//
// What is kept here decides only who asks the nodes, and when. Who gets the lock
// is decided there, and by nothing but tokens.
type queue struct {
	r     *core
	busy  atomic.Int32 // len(byKey): an uncontended Lock looks no further
	mu    sync.Mutex
	byKey map[string]*resourceQueue // by key
	swept time.Time
}

// A resourceQueue is what is known of one resource that somebody here waits for, or has
// waited for a moment ago.
type resourceQueue struct {
	line     list.List // of *waiter
	answer   *QuorumError
	answered time.Time     // when the nodes last answered somebody in line so
	mixed    bool          // since the line was last empty, some have had other retry delays than the first
	yield    time.Time     // until then a newcomer asks by turn
	inLine   bool          // this process may be in line on the nodes
	heard    announcements // of the last release
	check    *time.Timer   // looks, after a release by this process, whether the one that it has woken came; nil: none is due
	told     string        // the release that the waiters here were told of and no attempt has been refused since; "": none
	used     time.Time
}

const (
	// linger is how long a resourceQueue is kept when nobody waits in it. It must
	// outlive what is still on its way of the last release.
	linger = time.Second

	// yieldTime is for how long, after a release that has woken another process, a Lock
	// of this one asks by turn: as long as the resource may be reserved for the other.
	yieldTime = 100 * time.Millisecond

	// checkAfter is when, after its release has woken another process, this one looks whether
	// that one came: when the reservation has ended on all nodes.
	checkAfter = 120 * time.Millisecond

	// keepTime is for how long a waiter that was told of a release, and cannot use it
	// because of another of its resources, keeps it from the next in line: the other one
	// may be released soon, too. It is less than the life of the reservation.
	keepTime = 50 * time.Millisecond

	// grace is how long a waiter waits, for each message that is missing, for the
	// nodes whose lines have another order than those it was told by.
	grace = time.Millisecond

	// maxPosition is where positions in line are not counted any further.
	maxPosition = 1000
)

// A waiter is a call of Lock that waits.
type waiter struct {
	a      *acquisition
	began  time.Time
	keys   []string
	line   *queueKeys    // made when it first gets in line on the nodes
	signal chan struct{} // 1: look at the fields below

	// Guarded by queue.mu.
	places    []*list.Element // in the lines of the keys, in their order; nil: in none
	head      bool
	turn      bool      // it is to try at once: it has become head, or can get in line now
	tryAt     time.Time // when the next attempt because of a release is due; zero: none
	keepUntil time.Time // when the next in line is to be told of what w was told of; zero: it was not
	keptFor   string    // the holder for whose release it has done so
}

func newWaiter(a *acquisition) *waiter {
	w := &waiter{a: a, began: time.Now(), keys: make([]string, len(a.keys)), signal: make(chan struct{}, 1)}
	for i, key := range a.keys {
		w.keys[i] = key.(string)
	}
	return w
}

// notify has the waiter look at its fields. queue.mu is held.
func (w *waiter) notify() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// first returns who is first in the line, nil if it is empty.
func (g *resourceQueue) first() *waiter {
	if e := g.line.Front(); e != nil {
		return e.Value.(*waiter)
	}
	return nil
}

// of returns the queue of a key. q.mu is held.
func (q *queue) of(key string, now time.Time) *resourceQueue {
	g := q.byKey[key]
	if g == nil {
		g = new(resourceQueue)
		if q.byKey == nil {
			q.byKey = make(map[string]*resourceQueue)
		}
		q.byKey[key] = g
		q.busy.Add(1)
	}
	g.used = now
	return g
}

// sweep forgets the queues at which nothing happens any more. q.mu is held.
func (q *queue) sweep(now time.Time) {
	if now.Sub(q.swept) < linger {
		return
	}
	q.swept = now
	for key, g := range q.byKey {
		if g.line.Len() == 0 && now.Sub(g.used) > linger {
			delete(q.byKey, key)
			q.busy.Add(-1)
		}
	}
}

// joinBehind has a new waiter for a join if others wait for one of its resources
// here, or if this process has just woken another one for it: to ask at once would be to
// jump the queue. Otherwise it returns nil.
func (q *queue) joinBehind(a *acquisition) *waiter {
	if q.busy.Load() == 0 {
		return nil
	}
	w := newWaiter(a)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sweep(w.began)
	for _, key := range w.keys {
		if g := q.byKey[key]; g != nil && (g.line.Len() > 0 || w.began.Before(g.yield)) {
			q.joinLocked(w, w.began)
			return w
		}
	}
	return nil
}

// join puts w at the end of the lines.
func (q *queue) join(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.sweep(now)
	q.joinLocked(w, now)
	w.turn = false // It has just asked.
}

func (q *queue) joinLocked(w *waiter, now time.Time) {
	for _, key := range w.keys {
		g := q.of(key, now)
		w.places = append(w.places, g.line.PushBack(w))
		if !g.mixed && g.first().a.o.retryDelay != w.a.o.retryDelay {
			g.mixed = true
			g.notifyAll()
		}
	}
	q.promote(w)
}

// again has a head try at once, if it has not got in line on the nodes.
func (q *queue) again(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.head {
		w.turn = true
		w.notify()
	}
}

// listening has all heads try again: from now on they can get in line, and what
// was released before they may not have heard of.
func (q *queue) listening() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, g := range q.byKey {
		if w := g.first(); w != nil && w.head {
			w.turn = true
			w.notify()
		}
	}
}

// promote makes w a head if it is first in all its lines. q.mu is held.
func (q *queue) promote(w *waiter) {
	for _, e := range w.places {
		if e.Prev() != nil {
			return
		}
	}
	w.head, w.turn = true, true
	w.notify()
}

// position is the last of w's places in its lines: 1 is a head's.
func (q *queue) position(w *waiter) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	most := 1
	for _, place := range w.places {
		n := 1
		for e := place.Prev(); e != nil && n < maxPosition; e = e.Prev() {
			n++
		}
		most = max(most, n)
	}
	return most
}

// leave takes w out of its lines, and those that are first now become heads. If it
// is in line on the nodes, has not got the lock, and nobody here takes its place, it
// leaves those lines, too, and the next process is told of what w may have heard.
func (q *queue) leave(w *waiter, got bool) {
	q.mu.Lock()
	now := time.Now()
	firsts := make([]bool, len(w.keys))
	for i, key := range w.keys {
		g := q.byKey[key]
		g.used = now
		firsts[i] = w.places[i].Prev() == nil
		if g.line.Remove(w.places[i]); g.line.Len() == 0 {
			g.answer, g.mixed = nil, false
		}
	}
	w.places, w.head = nil, false
	keepUntil, keptFor := w.keepUntil, w.keptFor // Whoever takes its place keeps nothing for longer than w would have.
	if got {
		keepUntil, keptFor = time.Time{}, ""
	}
	pass := make(map[string]string)
	for i, key := range w.keys {
		g := q.byKey[key]
		next := g.first()
		if got {
			g.told = ""
		}
		if next != nil && !next.head {
			q.promote(next)
			next.keepUntil, next.keptFor = keepUntil, keptFor
		}
		if next != nil && next.head {
			continue // It takes w's place, and what w was told of, or is ahead of it.
		}
		if firsts[i] {
			g.notifyAll()
		}
		if g.inLine && !got {
			pass[key] = g.told // Of a message that is still on its way, hear tells the next.
		}
		g.inLine, g.told = false, ""
	}
	q.mu.Unlock()
	q.pass(pass, true)
}

// notifyAll has those in a line look whether they have to ask for themselves: when its
// first is no head any more, or when their retry delays have come to differ. queue.mu
// is held.
func (g *resourceQueue) notifyAll() {
	for e := g.line.Front(); e != nil; e = e.Next() {
		e.Value.(*waiter).notify()
	}
}

// A waiterState is how things stand with a waiter.
type waiterState struct {
	head, turn bool
	alone      bool // it may be that nobody asks as often as it would: one of its lines has no head, or several retry delays
	tryAt      time.Time
	keepUntil  time.Time
}

func (q *queue) stateOf(w *waiter) waiterState {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := waiterState{head: w.head, turn: w.turn, tryAt: w.tryAt, keepUntil: w.keepUntil}
	for _, key := range w.keys {
		g := q.byKey[key]
		s.alone = s.alone || !g.first().head || g.mixed
	}
	return s
}

// begin notes that w, a head, makes an attempt. What is heard from here on is news for
// the next one.
func (q *queue) begin(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.a.line != nil {
		for _, key := range w.keys {
			q.byKey[key].inLine = true
		}
	}
	w.turn, w.tryAt = false, time.Time{}
}

// remember keeps what the nodes have told w for others in its lines.
func (q *queue) remember(w *waiter, why *QuorumError) {
	if why == nil {
		return
	}
	own := why.clone() // The caller may do with its own what it likes.
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range w.keys {
		g := q.byKey[key]
		g.answer, g.answered = own, time.Now()
	}
}

// answer is what the nodes have told, not before since, somebody in a line in which
// w is behind, or else was behind; nil if there is no such answer.
func (q *queue) answer(w *waiter, since time.Time) (told *QuorumError) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, key := range w.keys {
		g := q.byKey[key]
		if g.answer == nil || g.answered.Before(since) {
			continue
		}
		if w.places[i].Prev() != nil {
			return g.answer
		}
		told = g.answer
	}
	return told
}
