package redlock

import (
	pq "container/heap" // A test has a function named heap.
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// An admission lets only so many lock rounds of a Redlock be under way at the same
// time as its nodes can answer soon; see window. What exceeds that waits here, first
// come, first served, before anything is made of it, and is turned away if its turn
// does not come in time. So load beyond what the nodes can carry costs them nothing.
//
// Without it, requests would queue at the nodes until each one is answered too late:
// all would be carried out and all would fail, and need a release besides.
//
// There is one for all nodes. Nodes that choose for themselves whom to serve choose
// differently: many rounds get one or two votes then, which are wasted.
//
// Extensions, releases, repairs and the further rounds of an attempt pass it by: what
// is held is not to suffer from what is wanted.
//
// An admission is safe for concurrent use. Its mutex is taken last: a round gives its
// place back with its own mutex held.
type admission struct {
	crowd atomic.Int64 // how many locks a node may leave unanswered; see node.isCrowded

	mu     sync.Mutex
	window window
	closed bool
	busy   int           // places taken
	line   list.List     // of *ticket: who waits for a place, in the order of arrival
	dues   dues          // the same, by when they are turned away
	epoch  time.Time     // what dues are counted from
	timer  *time.Timer   // one for all; nil until somebody has waited
	armed  time.Duration // when timer is due; 0: it is not
}

// A ticket is a call that waits for a place.
type ticket struct {
	in     *list.Element
	index  int           // in dues
	due    time.Duration // when it is turned away, since the epoch
	answer chan error    // gets one value: nil for a place, or why there is none
}

func newAdmission() *admission {
	a := &admission{window: newWindow(), epoch: time.Now()}
	a.updateCrowd()
	return a
}

// enter takes a place for a round, waiting for one if there is none. It returns how long
// that took, which leaves the round the time it needs within the node timeout. The error
// is ErrOverloaded, ctx's, or ErrClosed.
func (a *admission) enter(ctx context.Context, timeout time.Duration) (waited time.Duration, err error) {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return 0, ErrClosed
	}
	if a.line.Len() == 0 && a.busy < a.window.limit() {
		a.busy++
		a.mu.Unlock()
		return 0, nil
	}
	began := time.Now()
	t := a.queueLocked(began, timeout)
	a.mu.Unlock()
	if ctx.Done() == nil { // A select costs more, which counts when thousands wait.
		err = <-t.answer
	} else {
		select {
		case err = <-t.answer:
		case <-ctx.Done():
			err = a.cancel(ctx, t)
		}
		if err == nil && ctx.Err() != nil {
			a.giveBack() // A round for nobody would only cost the nodes a release besides.
			err = ctx.Err()
		}
	}
	return time.Since(began), err
}

// queueLocked puts a new ticket at the end of the line. mu is held.
func (a *admission) queueLocked(now time.Time, timeout time.Duration) *ticket {
	patience := a.window.patience(timeout)
	due := now.Sub(a.epoch) + patience
	// On a grid, the timer turns many away at once.
	if grid := patience / 32; grid > 0 {
		due -= due % grid
	}
	t := &ticket{due: due, answer: make(chan error, 1)}
	t.in = a.line.PushBack(t)
	pq.Push(&a.dues, t)
	a.armLocked()
	return t
}

// armLocked has the timer run when the first one is to be turned away. One that is
// set too early is left alone: it looks again then. mu is held.
func (a *admission) armLocked() {
	if len(a.dues) == 0 {
		return
	}
	due := a.dues[0].due
	if a.armed != 0 && a.armed <= due {
		return
	}
	a.armed = due
	wait := due - time.Since(a.epoch)
	if a.timer == nil {
		a.timer = time.AfterFunc(wait, a.turnAway)
	} else {
		a.timer.Reset(wait)
	}
}

// turnAway is the timer: it turns away those who have waited for too long.
func (a *admission) turnAway() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.armed = 0
	now := time.Since(a.epoch)
	for len(a.dues) > 0 && a.dues[0].due <= now {
		a.answerLocked(a.dues[0], ErrOverloaded)
	}
	a.armLocked()
}

// cancel ends the waiting of one whose context has ended. It returns nil if it has been
// given a place all the same.
func (a *admission) cancel(ctx context.Context, t *ticket) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.in == nil {
		return <-t.answer // It was sent under mu.
	}
	a.removeLocked(t)
	return ctx.Err()
}

// close turns away everybody who waits, with ErrClosed, and whoever comes later.
func (a *admission) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for len(a.dues) > 0 {
		a.answerLocked(a.dues[0], ErrClosed)
	}
}

// answerLocked ends the waiting of one in line: nil is a place. mu is held.
func (a *admission) answerLocked(t *ticket, err error) {
	a.removeLocked(t)
	t.answer <- err
}

// removeLocked takes a ticket out of the line. mu is held.
func (a *admission) removeLocked(t *ticket) {
	a.line.Remove(t.in)
	pq.Remove(&a.dues, t.index)
	t.in = nil
}

// leave gives back the place of a round that is over, whatever became of it.
func (a *admission) leave(s sample, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.busy = a.busy
	a.window.observe(s, now)
	a.updateCrowd()
	a.freeLocked()
}

// giveBack gives back a place that was not used.
func (a *admission) giveBack() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.freeLocked()
}

// freeLocked frees one place, and gives all that are free to those who wait. mu is
// held.
func (a *admission) freeLocked() {
	a.busy--
	for e := a.line.Front(); e != nil && a.busy < a.window.limit(); e = a.line.Front() {
		a.busy++
		a.answerLocked(e.Value.(*ticket), nil)
	}
}

// updateCrowd sets crowd: a node that leaves more than that is slower than the others.
func (a *admission) updateCrowd() {
	if crowd := int64(2 * a.window.limit()); a.crowd.Load() != crowd {
		a.crowd.Store(crowd)
	}
}

// leaveLocked gives the round's place back when its votes decide it, or when none is
// pending. That the caller has given up does not: what it has asked is still the nodes'
// to do, and calls that end early would overload them. rd.mu is held.
func (rd *round) leaveLocked(now time.Time) {
	v := rd.judge(rd.tally, rd.r.need, len(rd.ballots))
	if v == undecided && rd.pending > 0 {
		return
	}
	took := now.Sub(rd.start)
	rd.r.admission.leave(sample{
		took: took, timeout: rd.admitted, answered: v == granted || v == taken, late: v == noQuorum && took >= rd.task.limit,
	}, now)
	rd.admitted = 0
}

// dues is a heap of tickets. It is needed besides the line because calls have node timeouts of
// their own: one that came later may be turned away earlier.
type dues []*ticket

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].due < d[j].due }

func (d dues) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

func (d *dues) Push(t any) {
	t.(*ticket).index = len(*d)
	*d = append(*d, t.(*ticket))
}

func (d *dues) Pop() any {
	last := len(*d) - 1
	t := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return t
}

// stats returns how many places are taken, how many calls wait for one, and how many
// there are.
func (a *admission) stats() (busy, queued, limit int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.busy, a.line.Len(), a.window.limit()
}
