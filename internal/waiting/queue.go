// Package waiting keeps the calls of this process that wait for resources in order. It decides
// which of them asks the nodes, and when.
//
// It is rules only: its caller reports what has happened and when, and the package returns what the
// next process in line must be told. Keys are strings. A release is named by the digest of its
// token. Answers of nodes are errors that the package hands on unread.
package waiting

import (
	"container/list"
	"slices"
	"time"
)

// A Queue holds the calls of Lock that wait in this process. Each resource has a line, in the order of arrival. A
// waiter enters the lines of all its resources in one step, so two waiters can never wait for each other. A waiter that
// is first in all its lines is a head. Only heads ask the nodes.
//
// The queue decides only who asks the nodes, and when. The nodes decide who gets the lock, by tokens alone.
type Queue struct {
	nodes, need int
	random      func(d time.Duration) time.Duration // at least 0, and below d

	byKey  map[string]*resourceQueue
	swept  time.Time
	passes []Pass
}

// A Pass asks a node to tell the next process in line for a key that it was released, if the key is free there.
type Pass struct {
	Node        int
	Key, Digest string
	Leave       bool // this process does not wait any more, and leaves the line
}

// A resourceQueue is what is known of one resource that somebody here waits for, or has waited for a moment ago.
type resourceQueue struct {
	line     list.List // of *Waiter
	answer   error
	answered time.Time     // when the nodes last answered somebody in line so
	mixed    bool          // waiters in this line use different retry delays; kept until it is empty
	yield    time.Time     // until then a newcomer stands in line before it asks
	inLine   bool          // this process may be in line on the nodes
	heard    announcements // of the last release
	notified string        // digest of the last announced release that no attempt has been refused after; empty: none
	used     time.Time
	turn     *Turn // of a lock of this process; nil: it has none, or none with turns
}

const (
	// linger is how long a resourceQueue is kept when nobody waits in it. Messages of the last
	// release must not arrive later than that.
	linger = time.Second

	// ReservedFor is the life of a reservation; the scripts know it, too.
	ReservedFor = 100 * time.Millisecond

	// KeepTime is how long a waiter keeps a release to itself that it cannot use yet, because another of its resources
	// is taken: that one may be released soon, too. KeepTime is shorter than the reservation lives. Without it, a
	// waiter for two resources that four other processes hold for 10 ms each gets no lock in 5 s, instead of 35.
	KeepTime = 50 * time.Millisecond

	// grace is how long a waiter waits for each missing message: the other nodes may have another order in line.
	grace = time.Millisecond

	// maxPosition is the largest position in line that is counted.
	maxPosition = 1000
)

// NewQueue returns an empty queue for so many nodes and such a quorum. random returns at least 0, and less than d.
func NewQueue(nodes, need int, random func(d time.Duration) time.Duration) *Queue {
	return &Queue{nodes: nodes, need: need, random: random, byKey: make(map[string]*resourceQueue)}
}

// Passes returns the passes that have come up since it was last called.
func (q *Queue) Passes() []Pass {
	passes := q.passes
	q.passes = nil
	return passes
}

// Resources returns how many resources the queue knows something about.
func (q *Queue) Resources() int { return len(q.byKey) }

// first returns who is first in the line, nil if it is empty.
func (g *resourceQueue) first() *Waiter {
	if e := g.line.Front(); e != nil {
		return e.Value.(*Waiter)
	}
	return nil
}

// of returns the queue of a key.
func (q *Queue) of(key string, now time.Time) *resourceQueue {
	g := q.byKey[key]
	if g == nil {
		g = new(resourceQueue)
		q.byKey[key] = g
	}
	g.used = now
	return g
}

// sweep forgets the queues at which nothing happens any more.
func (q *Queue) sweep(now time.Time) {
	if now.Sub(q.swept) < linger {
		return
	}
	q.swept = now
	for key, g := range q.byKey {
		if g.line.Len() == 0 && g.turn == nil && now.Sub(g.used) > linger {
			delete(q.byKey, key)
		}
	}
}

// JoinBehind has a new waiter join if others wait here for one of its resources, or if this process has just woken
// another process for it: to ask the nodes at once would jump the queue. A waiter also joins during a turn that it takes
// part in. Then rests is true: it must not ask until it is notified. joined says whether it has joined.
func (q *Queue) JoinBehind(w *Waiter) (joined, rests bool) {
	q.sweep(w.began)
	if t := q.turnOf(w); t != nil {
		w.sleeps = true
		t.rest(w)
		q.join(w, w.began)
		return true, true
	}
	for _, key := range w.keys {
		if g := q.byKey[key]; g != nil && (g.line.Len() > 0 || w.began.Before(g.yield)) {
			q.join(w, w.began)
			return true, false
		}
	}
	return false, false
}

// Join puts w at the end of the lines. It has just asked.
func (q *Queue) Join(w *Waiter, now time.Time) {
	q.sweep(now)
	q.join(w, now)
	w.now = false
}

func (q *Queue) join(w *Waiter, now time.Time) {
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
	if w.head {
		w.now = true
		w.notify()
	}
}

// Listening has all heads try again: they can get in line now, and may have missed earlier releases.
func (q *Queue) Listening() {
	for _, g := range q.byKey {
		if w := g.first(); w != nil && w.head {
			w.now = true
			w.notify()
		}
	}
}

// promote makes w a head if it is first in all its lines.
func (q *Queue) promote(w *Waiter) {
	for _, e := range w.places {
		if e.Prev() != nil {
			return
		}
	}
	w.head, w.now = true, true
	if q.turnOf(w) == nil { // Its end does, or a pass.
		w.notify()
	}
}

// Position is the last of w's places in its lines: 1 is a head's.
func (q *Queue) Position(w *Waiter) int {
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

// Leave takes w out of its lines, and those that are first now become heads. If w has not got the lock, and nobody here
// takes its place, this process leaves the nodes' lines, and the next process is told of each release that w was told of.
// That includes a release that was meant for an earlier waiter here, before w had asked. The same is done if w got the
// lock by an attempt that was not in line: the nodes still reserve the resource for this process, and the release of w's
// lock would tell nobody.
func (q *Queue) Leave(w *Waiter, got bool, now time.Time) {
	if len(w.places) == 0 { // It was passed a lock.
		return
	}
	var space [4]bool
	firsts := append(space[:0], make([]bool, len(w.keys))...)
	for i, key := range w.keys {
		g := q.byKey[key]
		g.used = now
		firsts[i] = w.places[i].Prev() == nil
		if g.line.Remove(w.places[i]); g.line.Len() == 0 {
			g.answer, g.mixed = nil, false
		}
	}
	w.places, w.head = w.places[:0], false
	keepUntil, keptFor := w.keepUntil, w.keptFor // Whoever takes its place keeps nothing for longer than w would have.
	if got {
		keepUntil, keptFor = time.Time{}, ""
	}
	for i, key := range w.keys {
		g := q.byKey[key]
		next := g.first()
		if got && w.inLine {
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
		if (!got || !w.inLine) && (g.inLine || g.notified != "") {
			q.pass(key, g.notified, true) // Of a message that is still on its way, Hear tells the next.
		}
		g.inLine, g.notified = false, ""
	}
}

// notifyAll has all waiters in a line check whether they must ask for themselves: the first one is no head any more, or
// their retry delays differ now.
func (g *resourceQueue) notifyAll() {
	for e := g.line.Front(); e != nil; e = e.Next() {
		e.Value.(*Waiter).notify()
	}
}

// State returns how things stand with w, which is in line.
func (q *Queue) State(w *Waiter) State {
	s := State{Head: w.head && q.turnOf(w) == nil, TryAt: w.tryAt, KeepUntil: w.keepUntil}
	s.Now = s.Head && w.now
	for _, key := range w.keys {
		g := q.byKey[key]
		s.Alone = s.Alone || !g.first().head || g.mixed
	}
	return s
}

// Begin notes that w, a head, makes an attempt, by which it may get in line on the nodes.
// Releases that are announced from now on count for its next attempt.
func (q *Queue) Begin(w *Waiter, inLine bool) {
	if inLine {
		for _, key := range w.keys {
			q.byKey[key].inLine = true
		}
	}
	w.now, w.tryAt, w.inLine = w.now && !inLine, time.Time{}, inLine // It may have been told just now that it can get in line.
}

// Remember keeps the nodes' answer to w for the others in its lines. A nil is not kept. The answer must not be changed later.
func (q *Queue) Remember(w *Waiter, answer error, now time.Time) {
	if answer == nil {
		return
	}
	for _, key := range w.keys {
		g := q.byKey[key]
		g.answer, g.answered = answer, now
	}
}

// Answer returns the nodes' latest answer to another waiter in a line in which w is, or was, behind. It returns nil if
// there is none that came at since or later.
func (q *Queue) Answer(w *Waiter, since time.Time) (answer error) {
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
	return slices.ContainsFunc(keys, func(key any) bool {
		g := q.byKey[key.(string)]
		return g != nil && g.line.Len() > 0
	})
}

// Len returns how many resources the queue knows something about, and how many waiters are in their lines.
func (q *Queue) Len() (resources, waiters int) {
	for _, g := range q.byKey {
		waiters += g.line.Len()
	}
	return len(q.byKey), waiters
}

// A Standing is how a waiter stands in its lines.
type Standing struct {
	Position int       // see Queue.Position
	Answer   error     // what the nodes have last answered somebody in a line in which it is behind; nil: nothing
	At       time.Time // when that was
}

// Standings returns how every waiter stands, by a single look at each line.
func (q *Queue) Standings() map[*Waiter]Standing {
	all := make(map[*Waiter]Standing)
	for _, g := range q.byKey {
		n := 0
		for e := g.line.Front(); e != nil; e = e.Next() {
			n = min(n+1, maxPosition)
			w := e.Value.(*Waiter)
			s := all[w]
			s.Position = max(s.Position, n)
			if n > 1 && g.answer != nil && g.answered.After(s.At) {
				s.Answer, s.At = g.answer, g.answered
			}
			all[w] = s
		}
	}
	return all
}
