package redlock

import (
	"context"
	"errors"
	"slices"
	"time"
)

// This file is about the events that tell the life of a lock, call by call. Each call
// ends with one, so that traces and metrics can be made from the hook alone.

// event is an event about the lock. l.mu is held.
func (l *Lock) event(kind EventKind, op Op) Event {
	return Event{
		Kind: kind, Op: op, Resources: slices.Clone(l.claim.resources), Owner: l.o.owner,
		Holder: digest(l.claim.token), Until: l.until.mono, Held: l.lasted,
	}
}

// end ends the lock for the reason why, unless it has ended before. l.mu is held.
func (l *Lock) end(why error, now time.Time) {
	if l.ended != nil {
		return
	}
	l.ended = why
	l.lasted = l.heldFor(now)
}

// heldFor is for how long a lock that has not ended before now has been held: a timer
// may be late. l.mu is held.
func (l *Lock) heldFor(now time.Time) time.Duration {
	return min(now.Sub(l.start), l.until.mono.Sub(l.start))
}

// errNoRetry is the cause in the event of a call that a user's function has ended, by a
// panic or with its goroutine.
var errNoRetry = errors.New("a function of WithRetryIf or WithRetryBackoff has not returned")

// wait is run, and sends the event of the call's end, also if a user's function panics.
func (a *acquisition) wait(ctx context.Context) (l *Lock, err error) {
	err = &waitError{op: OpLock, resources: a.resources, cause: errNoRetry}
	defer func() { a.tell(ctx, l, err) }()
	l, err = a.run(ctx)
	return l, err
}

// tell sends the event of a call that has asked for a lock.
func (a *acquisition) tell(ctx context.Context, l *Lock, err error) {
	if !a.r.events.on() {
		return
	}
	took := time.Since(a.began)
	if err == nil {
		l.mu.Lock()
		e := l.event(EventAcquired, OpLock)
		l.mu.Unlock()
		e.Attempt, e.Took, e.Waited, e.Fence = l.attempts, took, l.start.Sub(a.began), l.Fence()
		a.r.events.send(ctx, e)
		return
	}
	e := Event{Kind: EventNotAcquired, Op: OpLock, Resources: slices.Clone(a.resources), Owner: a.o.owner, Took: took, Err: err}
	if qe := (*QuorumError)(nil); errors.As(err, &qe) {
		e.Attempt, e.Votes = qe.Attempt, slices.Clone(qe.Votes)
	}
	a.r.events.send(ctx, e)
}

// tell sends an event about the lock, of a call that began at began and ends with err.
func (l *Lock) tell(ctx context.Context, kind EventKind, op Op, began time.Time, err error) {
	if !l.r.events.on() {
		return
	}
	l.mu.Lock()
	e := l.event(kind, op)
	l.mu.Unlock()
	e.Took, e.Err = time.Since(began), err
	l.r.events.send(ctx, e)
}
