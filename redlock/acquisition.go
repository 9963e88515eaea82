package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/calls"
	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/link"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/waiting"
)

// An acquisition is one call of Lock or TryLock, and what it asks for.
type acquisition struct {
	r *core
	o *options // not changed
	target
	terms   *terms
	began   time.Time     // the call, for the hook
	joining joining       // of the latest attempt
	turn    time.Duration // how long a turn lasts; 0: this call takes no part in turns
}

// A joining is what an attempt asks for about the nodes' line. The zero joining is that of an attempt that does not
// wait in line.
type joining struct {
	inLine bool      // it gets in line if it is refused
	began  time.Time // to wait
	yields bool      // it gives way to the process that a free resource is reserved for
}

// minLine is how long a line lives at least after a waiter last joined it.
const minLine = time.Minute

// prepare checks the arguments, and derives the terms of the lock from them.
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
	if a.terms, err = r.terms(ttl, a.o); err != nil {
		return err
	}
	if longest := a.terms.validity / 10; a.o.turn > longest && a.o.turnHere {
		return fmt.Errorf("redlock: turn %v: must not exceed a tenth of the validity %v of the ttl %v", a.o.turn, a.terms.validity, ttl)
	}
	if a.o.stopTime >= a.terms.validity {
		return fmt.Errorf("redlock: stop time %v: must be shorter than the validity %v of the ttl %v", a.o.stopTime, a.terms.validity, ttl)
	}
	if a.terms, err = r.outlasting(a.terms, a.o); err != nil {
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

// attempt makes one attempt. If votes are split, it makes several claims, one after the other; see [lease.Contest].
func (a *acquisition) attempt(ctx context.Context, number int, t joining) (*Lock, error) {
	if ended := a.r.connected(ctx); ended != nil {
		e := a.unasked(number, func(n *link.Link) error { return cmp.Or(n.Unreached(), ErrPending) })
		e.cut = true
		return nil, a.endedBy(ended, e)
	}
	waited, err := a.r.admission.Enter(ctx, a.o.nodeTimeout)
	if err != nil {
		return nil, a.turnedAway(ctx, err, number)
	}
	a.joining = t
	rd := a.claimed(ctx, number)
	rd.admitted = true
	limit := min(rd.rules.AnswersIn(time.Now()), a.o.nodeTimeout-waited)
	for {
		rd.ask(limit)
		ended := rd.wait(ctx, a.r.calls.Closing)
		v := rd.take(a.o.minHold)
		switch v {
		case lease.Granted: // Even if ctx has ended: the caller gets what was won, and can release it.
			return a.won(rd, number), nil
		case lease.Undecided:
			return nil, a.endedBy(ended, rd.quorumError(verdictError(rd.failure.amounts)))
		case lease.Behind:
			// This claim's keys were given back. Before the next one, the leader gets the time of a round trip or two.
		default:
			return nil, rd.fail(verdictError(v))
		}
		contest := rd.rules.Contest
		if ended = a.r.calls.Sleep(ctx, contest.Rest); ended != nil {
			return nil, a.endedBy(ended, rd.quorumError(ErrTaken))
		}
		if contest.IsOver(time.Now()) {
			return nil, rd.fail(ErrTaken)
		}
		rd = a.claimed(ctx, number)
		rd.rules.Contest = contest
		limit = rd.rules.AnswersIn(time.Now())
	}
}

// claimed makes a claim for an attempt of that number, and the round that asks all nodes for it. Repeated requests for
// a claim keep its token and its start, so that Until is right whichever answer decides.
func (a *acquisition) claimed(ctx context.Context, number int) *round {
	// start is read before the first send, or Until would be too late.
	start, lead := a.r.clock.Now()
	c := a.r.newClaim(&a.target, a.o.owner, a.terms)
	c.leaves, c.waited = a.o.minHold > 0, a.turn > 0
	if a.counters != nil {
		c.askFence(start.Add(a.r.wall()), a.o.fenceLife, a.turn > 0)
	}
	rd := a.r.newRound(ctx, c, a.request(c), lease.Locking, number)
	rd.asker = a
	rd.rules.Start, rd.rules.Validity, rd.rules.Lead = start, a.terms.validity, lead
	rd.rules.Patience, rd.rules.Token = a.o.nodeTimeout, c.token()
	if a.counters != nil {
		rd.rules.Fencing = lease.NewFencing(len(a.r.nodes))
		if a.turn > 0 {
			rd.rules.Fencing.OwnBlock()
		}
	}
	rd.task.Lives = a.terms.validity
	return rd
}

// request returns the lock request, which joins the line if the attempt should.
func (a *acquisition) request(c *claim) node.Command {
	t, o := &a.joining, a.o
	if !t.inLine {
		return lockCommand(c)
	}
	// A line must outlive the wait until its sessions come back to it.
	life := max(2*(o.retryDelay+o.retryJitter), minLine)
	return queueCommand(c, a.r.channel, time.Since(t.began), life, t.yields)
}

// won makes the Lock of a round that was granted.
func (a *acquisition) won(rd *round, number int) *Lock {
	if f := rd.rules.Fencing; f != nil {
		rd.claim.fence = f.Fence
	}
	l := &Lock{r: a.r, o: a.o, claim: rd.claim, attempts: int32(number), terms: a.terms, rules: rd.rules.Got()}
	if a.turn > 0 {
		a.beginTurn(l, rd)
	} else if a.r.hasTurns.Load() {
		a.r.line.Do(func(q *waiting.Queue, _ time.Time) { q.EndTurns(a.keys) })
	}
	a.r.watch.Add(l, &l.entry)
	a.r.counts.Acquired.Add(1)
	return l
}

// unasked returns the error of an attempt that asked no node; why gives the reason for each node.
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

// endedBy returns the error of a call that was ended by its context or by Close.
func (a *acquisition) endedBy(cause, last error) error {
	if wasCut(last) {
		return last
	}
	return &waitError{op: OpLock, resources: a.resources, cause: cause, last: last}
}

// turnedAway returns the error of an attempt that asked no node because of why: it was turned away, or its context or
// Close ended its wait.
func (a *acquisition) turnedAway(ctx context.Context, why error, number int) error {
	e := a.unasked(number, func(*link.Link) error { return ErrOverloaded })
	if !errors.Is(why, calls.ErrTurnedAway) {
		return a.endedBy(why, e)
	}
	a.r.counts.Overloaded.Add(1)
	now := time.Now()
	for _, n := range a.r.nodes {
		n.RefusedElsewhere(now, a.o.nodeTimeout)
	}
	a.r.tellOverload(ctx, e)
	return e
}

// tell sends the event of a call that has asked for a lock. If the tracer panics, the caller does not get the lock, so
// tell releases it.
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
		e.Kind, e.Attempt, e.Waited, e.Fence = EventAcquired, int(l.attempts), l.rules.Start.Sub(a.began), l.Fence()
		e.Passed = l.share != nil && l.share.passed
	} else if errors.As(err, &qe) {
		e.Attempt, e.Votes = qe.Attempt, qe.Votes
	}
	a.r.end(ctx, e, l.fill)
	emitted = true
}
