package calls

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/admission"
)

// ErrTurnedAway is the error of [Gate.Enter] when the caller's turn did not come in time.
var ErrTurnedAway = errors.New("admission: turned away")

// A Gate is an [admission.Gate] at which callers wait. It is safe for concurrent use. Its mutex is taken last: it calls
// no code of its user, who may call [Gate.Leave] with a mutex held.
type Gate struct {
	unansweredLimit atomic.Int64 // see UnansweredLimit

	mu      sync.Mutex // taken last; see above
	rules   admission.Gate
	closed  error         // the error that Close was given
	epoch   time.Time     // the rules' times count from here
	timer   *time.Timer   // one for all; nil until somebody has waited
	timerAt time.Duration // when timer is due; 0: it is not set
}

// NewGate returns a gate with places for a client whose nodes are not known yet.
func NewGate() *Gate {
	g := &Gate{rules: admission.NewGate(), epoch: time.Now()}
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
	if g.rules.Enter() {
		g.mu.Unlock()
		return 0, nil
	}
	began, answer := time.Now(), make(chan error, 1) // nil for a place, or why there is none
	t := g.rules.Wait(began.Sub(g.epoch), timeout)
	t.Caller = answer
	g.setTimerLocked()
	g.mu.Unlock()
	if ctx.Done() == nil { // A select costs more, which matters with thousands of waiters.
		err = <-answer
	} else {
		select {
		case err = <-answer:
		case <-ctx.Done():
			err = g.cancel(ctx, t, answer)
		}
		if err == nil && ctx.Err() != nil {
			g.GiveBack() // A round for nobody would cost the nodes a release as well.
			err = ctx.Err()
		}
	}
	return time.Since(began), err
}

// setTimerLocked sets the timer to when the first caller must be turned away. A timer that is set too early stays: it
// will look again. mu is held.
func (g *Gate) setTimerLocked() {
	first, any := g.rules.Due()
	if !any || g.timerAt != 0 && g.timerAt <= first {
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

// turnAway is run by the timer, and turns away the callers that have waited for too long.
func (g *Gate) turnAway() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timerAt = 0
	g.turnAwayLocked(time.Since(g.epoch), ErrTurnedAway)
	g.setTimerLocked()
}

func (g *Gate) turnAwayLocked(now time.Duration, why error) {
	for t := g.rules.TurnAway(now); t != nil; t = g.rules.TurnAway(now) {
		t.Caller.(chan error) <- why
	}
}

// cancel ends the wait of a caller whose context has ended. It returns nil if the caller was given a place before.
func (g *Gate) cancel(ctx context.Context, t *admission.Ticket, answer chan error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.rules.Cancel(t) {
		return <-answer // It was sent under mu.
	}
	return ctx.Err()
}

// Close turns away all waiting and later callers with err. Places that are taken stay so until they are given back.
func (g *Gate) Close(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = err
	g.turnAwayLocked(math.MaxInt64, err)
}

// Leave is [admission.Gate.Leave].
func (g *Gate) Leave(s admission.Sample, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rules.Leave(s, now)
	g.updateLimit()
	g.letInLocked()
}

// GiveBack gives back a place that was not used. The gate learns nothing from it.
func (g *Gate) GiveBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rules.GiveBack()
	g.letInLocked()
}

// letInLocked gives all free places to waiting callers. mu is held.
func (g *Gate) letInLocked() {
	for t := g.rules.Next(); t != nil; t = g.rules.Next() {
		t.Caller.(chan error) <- nil
	}
}

// updateLimit sets unansweredLimit. It stores only a new value, as a needless write would slow readers on other
// processors.
func (g *Gate) updateLimit() {
	if limit := int64(g.rules.UnansweredLimit()); g.unansweredLimit.Load() != limit {
		g.unansweredLimit.Store(limit)
	}
}

// UnansweredLimit is [admission.Gate.UnansweredLimit]. The gate
// changes the value as it learns; everybody else only reads it.
func (g *Gate) UnansweredLimit() *atomic.Int64 { return &g.unansweredLimit }

// Stats is [admission.Gate.Stats].
func (g *Gate) Stats() (busy, queued, limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.rules.Stats()
}

// Open is [admission.Gate.Open].
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rules.Open()
	g.updateLimit()
}
