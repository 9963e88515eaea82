package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/admission"
	"github.com/seed6c881748/redlock/internal/link"
	"github.com/seed6c881748/redlock/internal/node"
)

// An acquisition is one call of Lock or TryLock, and what it asks for.
type acquisition struct {
	r *core
	o *options // not changed
	target
	lease *lease
	began time.Time // the call, for the hook
}

// prepare checks the arguments, and notes what they come to.
func (a *acquisition) prepare(ctx context.Context, r *core, resources []string, ttl time.Duration, opts []Option) error {
	a.r, a.o = r, &r.defaults
	if r.events.On() {
		a.began = time.Now()
	}
	if len(opts) > 0 {
		o := r.defaults
		if err := o.apply(opts); err != nil {
			return err
		}
		a.o = &o
	}
	var err error
	if a.lease, err = r.lease(ttl, a.o); err != nil {
		return err
	}
	if a.o.stopTime >= a.lease.validity {
		return fmt.Errorf("redlock: stop time %v: must be shorter than the validity %v of the ttl %v", a.o.stopTime, a.lease.validity, ttl)
	}
	if a.lease, err = r.outlasting(a.lease, a.o); err != nil {
		return err
	}
	if err = a.aim(r.defaults.prefix, resources); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if resource, ok := r.holds(ctx, a.resources); ok {
		return fmt.Errorf("%w: %q", ErrAlreadyHeld, resource)
	}
	if a.o.fencing {
		a.addCounters()
	}
	return nil
}

// attempt makes one attempt. Where clients that began together have split the votes so that nobody has a quorum, it
// resolves that too: the one with most votes keeps them and asks for the rest, the others give theirs back and look
// again after a random time, within the node timeout. Plain Redlock fails there, for all of them; see split.go.
func (a *acquisition) attempt(ctx context.Context, number int, t turn) (*Lock, error) {
	if ended := a.r.connected(ctx); ended != nil {
		e := a.unasked(number, func(n *link.Link) error { return cmp.Or(n.Unreached(), ErrPending) })
		e.cut = true
		return nil, a.endedBy(ended, e)
	}
	waited, err := a.r.admission.Enter(ctx, a.o.nodeTimeout)
	if err != nil {
		return nil, a.turnedAway(ctx, err, number)
	}
	c := a.newCandidate(ctx, number, t)
	c.admitted, c.waited = true, waited
	l, err := c.lock()
	if errors.Is(err, errSplit) {
		return newSplit(c).resolve()
	}
	return l, err
}

// unasked is the error of an attempt of which no node was asked; why says so for each.
func (a *acquisition) unasked(number int, why func(n *link.Link) error) *QuorumError {
	e := &QuorumError{
		Op: OpLock, Resources: slices.Clone(a.resources), Need: a.r.need, Attempt: number,
		Votes: make([]Vote, len(a.r.nodes)), reason: ErrNoQuorum, prefix: a.prefix,
	}
	for i, n := range a.r.nodes {
		e.Votes[i] = Vote{Node: n.Name, Err: why(n), stance: node.Silent}
	}
	return e
}

// endedBy is the error of a call that was ended by its context or by Close.
func (a *acquisition) endedBy(cause, last error) error {
	if wasCut(last) {
		return last
	}
	return &waitError{op: OpLock, resources: a.resources, cause: cause, last: last}
}

// turnedAway returns the error of an attempt that was not made because of why: it was
// turned away, or its context or Close ended its wait. Nothing was asked of any node.
func (a *acquisition) turnedAway(ctx context.Context, why error, number int) error {
	e := a.unasked(number, func(*link.Link) error { return ErrOverloaded })
	if !errors.Is(why, admission.ErrTurnedAway) {
		return a.endedBy(why, e)
	}
	a.r.counters.Overloaded.Add(1)
	now := time.Now()
	for _, n := range a.r.nodes {
		n.RefusedElsewhere(now, a.o.nodeTimeout)
	}
	a.r.tellOverload(ctx, e)
	return e
}

// tell sends the event of a call that has asked for a lock. If the tracer panics, the caller does
// not get the lock, so it is released.
func (a *acquisition) tell(ctx context.Context, l *Lock, err error) {
	if err == nil && !a.r.events.On() {
		return // As in Lock.tell.
	}
	emitted := false
	defer func() {
		if !emitted && l != nil {
			_ = l.unlock(ctx)
		}
	}()
	e := Event{Kind: EventNotAcquired, Op: OpLock, Resources: a.resources, Owner: a.o.owner, Err: err}
	if !a.began.IsZero() {
		e.Took = time.Since(a.began)
	}
	if qe := (*QuorumError)(nil); err == nil {
		e.Kind, e.Attempt, e.Waited, e.Fence = EventAcquired, l.attempts, l.start.Sub(a.began), l.Fence()
	} else if errors.As(err, &qe) {
		e.Attempt, e.Votes = qe.Attempt, qe.Votes
	}
	a.r.end(ctx, e, l.fill)
	emitted = true
}
