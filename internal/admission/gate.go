// Package admission decides how many lock rounds of a client may be under way at the same time, and how long a call
// waits for its turn. So load beyond what the nodes can carry costs them nothing. It knows neither nodes nor locks, and
// has only rules: package calls makes callers wait.
package admission

import (
	"container/heap"
	"time"
)

// A Gate lets only as many lock rounds of a client be under way at the same time as its nodes can answer soon; see
// window. Further callers wait at the gate, before they have made a token or a request. The order of the queue is that
// in which callers would be turned away: with the same node timeout, that is the order of arrival, and a call with a
// short node timeout need not wait for all with a long one. The gate turns a caller away if its turn does not come in
// time.
//
// Without a gate, requests would queue at the nodes until each one is answered too late: the nodes would carry out all
// of them for rounds that fail, and a release of each as well.
//
// A client has one gate for all its nodes. Nodes that chose for themselves whom to serve would choose differently: many
// rounds would get one or two votes, which are wasted.
//
// Times count from any instant, the same for all of them.
type Gate struct {
	window window
	busy   int    // places taken
	queue  queue  // calls that wait for a place
	came   uint64 // how many calls have waited
}

// NewGate returns a gate with places for a client whose nodes are not known yet.
func NewGate() Gate { return Gate{window: newWindow()} }

// Enter takes a place for a round, if there is one. Leave or GiveBack gives it back, once.
func (g *Gate) Enter() bool {
	if len(g.queue) > 0 || g.busy >= g.window.limit() {
		return false
	}
	g.busy++
	return true
}

// Wait puts the caller into the queue if there was no place, for at most three quarters of timeout: the time for its
// round and the wait together.
func (g *Gate) Wait(now, timeout time.Duration) *Ticket {
	patience := g.window.patience(timeout)
	deadline := now + patience
	// On a grid, many calls are turned away at once.
	if grid := patience / 32; grid > 0 {
		deadline -= deadline % grid
	}
	g.came++
	t := &Ticket{deadline: deadline, number: g.came}
	heap.Push(&g.queue, t)
	return t
}

// Due returns when the first caller must be turned away, if there is one.
func (g *Gate) Due() (at time.Duration, any bool) {
	if len(g.queue) == 0 {
		return 0, false
	}
	return g.queue[0].deadline, true
}

// TurnAway removes a caller that has waited for too long from the queue, and returns it; nil: there is none.
func (g *Gate) TurnAway(now time.Duration) *Ticket {
	if due, any := g.Due(); !any || due > now {
		return nil
	}
	return g.first()
}

// Next gives a free place to the first caller in the queue, and returns it; nil: there is none.
func (g *Gate) Next() *Ticket {
	if len(g.queue) == 0 || g.busy >= g.window.limit() {
		return nil
	}
	g.busy++
	return g.first()
}

func (g *Gate) first() *Ticket { return heap.Pop(&g.queue).(*Ticket) }

// Cancel takes a caller out of the queue. It returns false if the caller does not wait any more.
func (g *Gate) Cancel(t *Ticket) (waited bool) {
	if t.index < 0 {
		return false
	}
	heap.Remove(&g.queue, t.index)
	return true
}

// Leave gives back the place of a round that is over, whatever its result. The gate learns from s how many rounds the
// nodes can carry. Then call Next until it returns nil.
func (g *Gate) Leave(s Sample, now time.Time) {
	g.window.observe(s, g.busy, now)
	g.busy--
}

// GiveBack gives back a place that was not used. The gate learns nothing from it. Then call Next as well.
func (g *Gate) GiveBack() { g.busy-- }

// UnansweredLimit returns how many locks one node may leave unanswered: twice as many as
// there are places. A node that leaves more is slower than a quorum of the others.
func (g *Gate) UnansweredLimit() int { return 2 * g.window.places() }

// Stats returns how many places are taken, how many calls wait for one, and how many places there are.
func (g *Gate) Stats() (busy, queued, limit int) { return g.busy, len(g.queue), g.window.places() }

// Open makes as many places as there can ever be, for comparisons with no gate at all.
func (g *Gate) Open() {
	g.busy -= maxWindow
	g.window.size = maxWindow
}
