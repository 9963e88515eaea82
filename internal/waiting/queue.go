// Package waiting keeps the calls that wait for resources in this process in order, and knows
// who of them is to ask the nodes, and when.
//
// It does no I/O and knows no node: it is told of messages, and tells the next process in
// line by a function that it is given. Keys are strings, releases have the digest of their
// token as a name, and answers of nodes are errors that it hands on unread.
package waiting

import (
	"container/list"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Queue has the calls of Lock that wait in this process, resource by resource in the order of their arrival. A
// waiter enters the lines of all its resources in one step, so that two of them can never wait for each other, and is
// a head when it is first in all of them. Only heads talk to the nodes.
//
// What is kept here decides only who asks the nodes, and when. Who gets the lock
// is decided there, and by nothing but tokens.
type Queue struct {
	nodes, need int

	// pass has the next in line for a key told of a release on node i, if the resource is
	// free there; leave says that this process does not wait any more.
	pass func(i int, key, digest string, leave bool)

	busy  atomic.Int32 // len(byKey): an uncontended Lock looks no further
	mu    sync.Mutex   // held alone: pass is called without it
	byKey map[string]*resourceQueue
	swept time.Time
}

// A resourceQueue is what is known of one resource that somebody here waits for, or has waited for a moment ago.
type resourceQueue struct {
	line     list.List // of *Waiter
	answer   error
	answered time.Time     // when the nodes last answered somebody in line so
	mixed    bool          // since the line was last empty, some have had other retry delays than the first
	yield    time.Time     // until then a newcomer asks by turn
	inLine   bool          // this process may be in line on the nodes
	heard    announcements // of the last release
	notified string        // the release that the waiters here were told of and no attempt has been refused since; "": none
	used     time.Time
}

const (
	// linger is how long a resourceQueue is kept when nobody waits in it. It must
	// outlive what is still on its way of the last release.
	linger = time.Second

	// ReservedFor is the life of a reservation; the scripts know it, too.
	ReservedFor = 100 * time.Millisecond

	// KeepTime is for how long a waiter that was told of a release, and cannot use it
	// because of another of its resources, keeps it from the next in line: the other one
	// may be released soon, too. It is less than the life of the reservation. Without, a waiter for two
	// resources that four other processes hold in turns of 10 ms gets none in 5 s, instead of 35.
	KeepTime = 50 * time.Millisecond

	// grace is how long a waiter waits, for each message that is missing, for the
	// nodes whose lines have another order than those it was told by.
	grace = time.Millisecond

	// maxPosition is where positions in line are not counted any further.
	maxPosition = 1000
)

// NewQueue returns an empty queue for so many nodes and such a quorum. pass tells the next in line for a key of a
// release on node i, if the resource is free there, and has this process leave the line if it does not wait any more.
func NewQueue(nodes, need int, pass func(i int, key, digest string, leave bool)) *Queue {
	return &Queue{nodes: nodes, need: need, pass: pass, byKey: make(map[string]*resourceQueue)}
}

// first returns who is first in the line, nil if it is empty.
func (g *resourceQueue) first() *Waiter {
	if e := g.line.Front(); e != nil {
		return e.Value.(*Waiter)
	}
	return nil
}

// of returns the queue of a key. q.mu is held.
func (q *Queue) of(key string, now time.Time) *resourceQueue {
	g := q.byKey[key]
	if g == nil {
		g = new(resourceQueue)
		q.byKey[key] = g
		q.busy.Add(1)
	}
	g.used = now
	return g
}

// sweep forgets the queues at which nothing happens any more. q.mu is held.
func (q *Queue) sweep(now time.Time) {
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

// JoinBehind has a new waiter join if others wait for one of its resources here, or if this process has lately woken
// another one for it: to ask at once would be to jump the queue. Otherwise it returns nil.
func (q *Queue) JoinBehind(keys []any, delay time.Duration, began time.Time) *Waiter {
	if q.busy.Load() == 0 {
		return nil
	}
	w := NewWaiter(keys, delay, began)
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

// Join puts w at the end of the lines. It has just asked.
func (q *Queue) Join(w *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.sweep(now)
	q.joinLocked(w, now)
	w.turn = false
}

func (q *Queue) joinLocked(w *Waiter, now time.Time) {
	for _, key := range w.keys {
		g := q.of(key, now)
		w.places = append(w.places, g.line.PushBack(w))
		if !g.mixed && g.first().delay != w.delay {
			g.mixed = true
			g.notifyAll()
		}
	}
	q.promote(w)
}

// Again has a head try at once, if it has not got in line on the nodes.
func (q *Queue) Again(w *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.head {
		w.turn = true
		w.notify()
	}
}

// Listening has all heads try again: from now on they can get in line, and what
// was released before they may not have heard of.
func (q *Queue) Listening() {
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
func (q *Queue) promote(w *Waiter) {
	for _, e := range w.places {
		if e.Prev() != nil {
			return
		}
	}
	w.head, w.turn = true, true
	w.notify()
}

// Position is the last of w's places in its lines: 1 is a head's.
func (q *Queue) Position(w *Waiter) int {
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

// Leave takes w out of its lines, and those that are first now become heads. If it
// is in line on the nodes, has not got the lock, and nobody here takes its place, it
// leaves those lines, too, and the next process is told of what w may have heard.
func (q *Queue) Leave(w *Waiter, got bool) {
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
			g.notified = ""
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
			pass[key] = g.notified // Of a message that is still on its way, Hear tells the next.
		}
		g.inLine, g.notified = false, ""
	}
	q.mu.Unlock()
	q.passAll(pass, true)
}

// notifyAll has those in a line look whether they have to ask for themselves: when its first is no head any more, or
// when their retry delays have come to differ. Queue.mu is held.
func (g *resourceQueue) notifyAll() {
	for e := g.line.Front(); e != nil; e = e.Next() {
		e.Value.(*Waiter).notify()
	}
}

// State returns how things stand with w, which is in line.
func (q *Queue) State(w *Waiter) State {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := State{Head: w.head, Turn: w.turn, TryAt: w.tryAt, KeepUntil: w.keepUntil}
	for _, key := range w.keys {
		g := q.byKey[key]
		s.Alone = s.Alone || !g.first().head || g.mixed
	}
	return s
}

// Begin notes that w, a head, makes an attempt, with which it may get in line on the nodes.
// What is heard from here on is news for the next one.
func (q *Queue) Begin(w *Waiter, inLine bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if inLine {
		for _, key := range w.keys {
			q.byKey[key].inLine = true
		}
	}
	w.turn, w.tryAt = false, time.Time{}
}

// Remember keeps what the nodes have answered w for others in its lines; nil: nothing. It is not changed any more.
func (q *Queue) Remember(w *Waiter, answer error) {
	if answer == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range w.keys {
		g := q.byKey[key]
		g.answer, g.answered = answer, time.Now()
	}
}

// Answer is what the nodes have answered, not before since, somebody in a line in which
// w is behind, or else was behind; nil if there is no such answer.
func (q *Queue) Answer(w *Waiter, since time.Time) (answer error) {
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
		answer = g.answer
	}
	return answer
}

// Waits reports whether somebody here is in line for one of the keys.
func (q *Queue) Waits(keys []any) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(keys, func(key any) bool {
		g := q.byKey[key.(string)]
		return g != nil && g.line.Len() > 0
	})
}

// Len returns of how many resources something is known, and how many waiters are in their lines.
func (q *Queue) Len() (resources, waiters int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, g := range q.byKey {
		waiters += g.line.Len()
	}
	return len(q.byKey), waiters
}
