// Package admission decides how many lock rounds of a client may be under way at the same
// time, and for how long a call waits for its turn. So load beyond what the nodes can carry
// costs them nothing. It knows neither nodes nor locks.
package admission

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrTurnedAway is what [Gate.Enter] returns when the caller's turn did not come in time.
var ErrTurnedAway = errors.New("admission: turned away")

// A Gate lets only so many lock rounds of a client be under way at the same time as its nodes can answer soon; see
// window. Callers beyond that wait at the gate, before they have made a token or a request. The first in the queue is
// the one to be turned away first: of calls with the same node timeout the first that came, and one with a short node
// timeout need not wait for all with a long one. The gate turns a caller away if its turn does not come in time.
//
// Without a gate, requests would queue at the nodes until each one is answered too late:
// all would be carried out and all would fail, and need a release besides.
//
// A client has one gate for all its nodes. Nodes that choose for themselves whom to serve
// choose differently: many rounds get one or two votes then, which are wasted.
//
// A Gate is safe for concurrent use. Its mutex is taken last: it calls nothing of its user's,
// who may call [Gate.Leave] with a mutex held.
type Gate struct {
	unansweredLimit atomic.Int64 // see UnansweredLimit

	mu      sync.Mutex // last; see above
	window  window
	closed  error         // what Close was given
	busy    int           // places taken
	queue   queue         // who waits for a place
	came    uint64        // how many have waited
	epoch   time.Time     // what deadlines are counted from
	timer   *time.Timer   // one for all; nil until somebody has waited
	timerAt time.Duration // when timer is due; 0: it is not set
}

// New returns a gate with places for a client whose nodes are not known yet.
func New() *Gate {
	g := &Gate{window: newWindow(), epoch: time.Now()}
	g.updateLimit()
	return g
}

// Enter takes a place for a round, waiting for one if there is none. It returns how long the
// wait took: at most three quarters of timeout, the time that the caller has for its round and
// the wait together. The error is [ErrTurnedAway], ctx's, or what [Gate.Close] was given.
//
// After success the caller must give the place back: with [Gate.Leave], once.
func (g *Gate) Enter(ctx context.Context, timeout time.Duration) (waited time.Duration, err error) {
	g.mu.Lock()
	if g.closed != nil {
		g.mu.Unlock()
		return 0, g.closed
	}
	if len(g.queue) == 0 && g.busy < g.window.limit() {
		g.busy++
		g.mu.Unlock()
		return 0, nil
	}
	began := time.Now()
	t := g.enqueueLocked(began, timeout)
	g.mu.Unlock()
	if ctx.Done() == nil { // A select costs more, which counts when thousands wait.
		err = <-t.answer
	} else {
		select {
		case err = <-t.answer:
		case <-ctx.Done():
			err = g.cancel(ctx, t)
		}
		if err == nil && ctx.Err() != nil {
			g.GiveBack() // A round for nobody would only cost the nodes a release besides.
			err = ctx.Err()
		}
	}
	return time.Since(began), err
}

// enqueueLocked puts a new ticket into the queue. mu is held.
func (g *Gate) enqueueLocked(now time.Time, timeout time.Duration) *ticket {
	patience := g.window.patience(timeout)
	deadline := now.Sub(g.epoch) + patience
	// On a grid, the timer turns many away at once.
	if grid := patience / 32; grid > 0 {
		deadline -= deadline % grid
	}
	g.came++
	t := &ticket{deadline: deadline, number: g.came, answer: make(chan error, 1)}
	heap.Push(&g.queue, t)
	g.setTimerLocked()
	return t
}

// setTimerLocked has the timer run when the first caller is to be turned away. A timer that
// is set too early is left alone: it looks again then. mu is held.
func (g *Gate) setTimerLocked() {
	if len(g.queue) == 0 {
		return
	}
	first := g.queue[0].deadline
	if g.timerAt != 0 && g.timerAt <= first {
		return
	}
	g.timerAt = first
	wait := first - time.Since(g.epoch)
	if g.timer == nil {
		g.timer = time.AfterFunc(wait, g.turnAway)
	} else {
		g.timer.Reset(wait)
	}
}

// turnAway is what the timer runs: it turns away the callers that have waited for too long.
func (g *Gate) turnAway() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timerAt = 0
	now := time.Since(g.epoch)
	for len(g.queue) > 0 && g.queue[0].deadline <= now {
		g.answerLocked(ErrTurnedAway)
	}
	g.setTimerLocked()
}

// cancel ends the wait of a caller whose context has ended. It returns nil if the caller has
// been given a place all the same.
func (g *Gate) cancel(ctx context.Context, t *ticket) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.index < 0 {
		return <-t.answer // It was sent under mu.
	}
	heap.Remove(&g.queue, t.index)
	return ctx.Err()
}

// Close turns away everybody who waits, and whoever comes later, with err. Places that are
// taken stay so until they are given back.
func (g *Gate) Close(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = err
	for len(g.queue) > 0 {
		g.answerLocked(err)
	}
}

// answerLocked ends the wait of the first in the queue: nil is a place. mu is held.
func (g *Gate) answerLocked(err error) { heap.Pop(&g.queue).(*ticket).answer <- err }

// Leave gives back the place of a round that is over, whatever became of it. The gate learns
// from s how many rounds the nodes can carry.
func (g *Gate) Leave(s Sample, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.window.observe(s, g.busy, now)
	g.updateLimit()
	g.freeLocked()
}

// GiveBack gives back a place that was not used. The gate learns nothing from it.
func (g *Gate) GiveBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.freeLocked()
}

// freeLocked frees one place, and gives all that are free to the callers that wait. mu is held.
func (g *Gate) freeLocked() {
	g.busy--
	for len(g.queue) > 0 && g.busy < g.window.limit() {
		g.busy++
		g.answerLocked(nil)
	}
}

// updateLimit sets unansweredLimit. It stores only what has changed: the readers are on other processors.
func (g *Gate) updateLimit() {
	if limit := int64(2 * g.window.places()); g.unansweredLimit.Load() != limit {
		g.unansweredLimit.Store(limit)
	}
}

// UnansweredLimit returns how many locks one node may leave unanswered: twice as many as
// there are places. A node that leaves more is slower than a quorum of the others. The gate
// changes the value as it learns; everybody else only reads it.
func (g *Gate) UnansweredLimit() *atomic.Int64 { return &g.unansweredLimit }

// Stats returns how many places are taken, how many calls wait for one, and how many places there are.
func (g *Gate) Stats() (busy, queued, limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.busy, len(g.queue), g.window.places()
}

// Open makes as many places as there can ever be, for comparisons with no gate at all.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy -= maxWindow
	g.window.size = maxWindow
	g.updateLimit()
}
