package redlock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/admission"
	"github.com/seed6c881748/redlock/internal/clockwatch"
	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/node"
)

// An acquisition is one call of Lock or TryLock.
type acquisition struct {
	r *core
	o *options // not changed
	target
	lease *lease
	began time.Time // the call, for the hook
}

// A turn is what an attempt of a Lock that waits says of its place in line. The zero turn is that of
// an attempt without one.
type turn struct {
	inLine bool      // it gets in line if it is refused
	began  time.Time // to wait
	yields bool      // it gives way to whom a free resource is reserved for
}

// minLine is the least life of a line, from when somebody last got in.
const minLine = time.Minute

// endedBy is the error of a call that was ended by its context or by Close.
func (a *acquisition) endedBy(cause, last error) error {
	if cut := (*waitError)(nil); errors.As(last, &cut) {
		return last
	}
	return &waitError{op: OpLock, resources: a.resources, cause: cause, last: last}
}

// attempt makes one attempt. Where clients that began together have split the
// votes so that nobody has a quorum, it resolves that too: the one with most
// votes keeps them and asks for the rest, the others give theirs back and look
// again after a random time, within the node timeout. Plain Redlock fails there,
// for all of them; see split.go.
func (a *acquisition) attempt(ctx context.Context, number int, t turn) (*Lock, error) {
	if ended := a.r.connected(ctx); ended != nil {
		e := a.unasked(number, func(n *node.Node) error { return cmp.Or(n.Unreached(), ErrPending) })
		e.cut = true
		return nil, a.endedBy(ended, e)
	}
	waited, err := a.r.admission.Enter(ctx, a.o.nodeTimeout)
	if err != nil {
		return nil, a.turnedAway(ctx, err, number)
	}
	var split *split
	for {
		c := a.newCandidate(ctx, number, split)
		c.turn, c.admitted, c.waited = t, split == nil, waited
		c.ask()
		l, err := c.outcome(ctx)
		if !errors.Is(err, errSplit) {
			return l, err
		}
		if split == nil {
			split = newSplit(a.o.nodeTimeout, time.Since(c.start))
			c.split = split
		}
		if l, err = split.contend(ctx, c); !errors.Is(err, errSplit) {
			return l, err
		}
		// Somebody else leads: what this candidate has won was given back. Before the next
		// look, the leader gets the time of a round trip or two.
		if ended := a.r.calls.Sleep(ctx, split.pause()); ended != nil {
			return nil, a.endedBy(ended, c.round.quorumError(ErrTaken))
		}
		if split.over() {
			return nil, c.round.fail(ErrTaken)
		}
	}
}

// unasked is the error of an attempt of which no node was asked; why says so for each.
func (a *acquisition) unasked(number int, why func(n *node.Node) error) *QuorumError {
	e := &QuorumError{
		Op: OpLock, Resources: slices.Clone(a.resources), Need: a.r.need, Attempt: number,
		Votes: make([]Vote, len(a.r.nodes)), reason: ErrNoQuorum, prefix: a.prefix,
	}
	for i, n := range a.r.nodes {
		e.Votes[i] = Vote{Node: n.Name, Err: why(n), stance: node.Silent}
	}
	return e
}

// turnedAway returns the error of an attempt that was not made because of why: it was
// turned away, or its context or Close ended its wait. Nothing was asked of any node.
func (a *acquisition) turnedAway(ctx context.Context, why error, number int) error {
	e := a.unasked(number, func(*node.Node) error { return ErrOverloaded })
	if !errors.Is(why, admission.ErrTurnedAway) {
		return a.endedBy(why, e)
	}
	a.r.counters.overloaded.Add(1)
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
	a.r.end(ctx, e, l)
	emitted = true
}

// errSplit: the votes are split so that no token is known to have a quorum.
// It never leaves the package.
var errSplit = errors.New("redlock: split vote")

// A candidate is one claim on its way to a lock: a round that asks all nodes, and some of them
// once more if the votes are split and this claim leads. All of that is with one token and
// one start, so that Until is right whichever answer decides.
type candidate struct {
	a     *acquisition
	ctx   context.Context //nolint:containedctx // A candidate lives within one call.
	claim *claim
	turn  turn
	until clockwatch.Deadline
	start time.Time
	num   int
	round *round
	split *split        // of the attempt; nil until its votes have been split
	limit time.Duration // what the nodes got to answer, when they were asked last

	admitted bool          // its round has a place; see admission
	waited   time.Duration // for that place
}

func (a *acquisition) newCandidate(ctx context.Context, number int, s *split) *candidate {
	// start is read before the first send, or Until would be too late.
	start, lead := a.r.clock.Now()
	c := a.r.newClaim(&a.target, a.o.owner, a.lease)
	c.leaves = a.o.minHold > 0
	if a.counters != nil {
		c.askFence(start.Add(a.r.wall()), a.o.fenceLife)
	}
	return &candidate{
		a: a, ctx: ctx, num: number, split: s, start: start, claim: c,
		until: clockwatch.NewDeadline(start, a.lease.validity, lead),
	}
}

// request is the lock request, which gets in line where the turn says so.
func (c *candidate) request() node.Command {
	t, o := &c.turn, c.a.o
	if !t.inLine {
		return lockCommand(c.claim)
	}
	// A line must outlive the wait until its sessions come back to it.
	life := max(2*(o.retryDelay+o.retryJitter), minLine)
	return queueCommand(c.claim, c.a.r.channel, time.Since(t.began), life, t.yields)
}

func (c *candidate) ask() {
	a := c.a
	rd := a.r.newRound(c.ctx, OpLock, c.claim, c.request(), node.LockRequest, decideLock, c.num)
	rd.until, rd.task.Lives = c.until, a.lease.validity
	if c.claim.counters != nil {
		rd.grants = fences.NewGrants(len(rd.ballots))
	}
	c.round = rd
	c.setLimit()
	if c.admitted {
		rd.admitted = a.o.nodeTimeout
		c.limit = min(c.limit, a.o.nodeTimeout-c.waited)
	}
	rd.ask(c.start, c.limit)
}

func (c *candidate) askRefused() {
	c.setLimit()
	c.round.again(node.LockRequest, c.limit, c.request, func(_ int, v *ballot) bool { return v.stance == node.No || v.stance == node.Gone })
}

// setLimit sets what the nodes get to answer: a vote that comes after Until is none.
func (c *candidate) setLimit() {
	c.limit = min(c.a.o.nodeTimeout, time.Until(c.until.Mono))
	if c.split != nil {
		c.limit = min(c.limit, time.Until(c.split.until))
	}
}

// outcome waits for the round's decision. After an error other than errSplit
// the claim is being released; with errSplit it still stands.
func (c *candidate) outcome(ctx context.Context) (*Lock, error) {
	r := c.a.r
	waited := c.round.wait(ctx, r.calls.Closing)
	v, t := c.round.result()
	raised := false
	if v == granted && c.claim.counters != nil {
		v, raised, waited = c.fence(ctx)
		_, t = c.round.result()
	}
	switch {
	case v == granted && c.until.Remaining(r.clock.Now()) > c.a.o.minHold:
		// Even if ctx has ended: the caller gets what was won, and can release it.
		l := &Lock{
			r: r, o: c.a.o, claim: c.claim, attempts: c.num, lease: c.a.lease,
			start: c.start, until: c.until, extended: c.start,
		}
		r.watch.Add(l)
		r.counters.acquired.Add(1)
		return l, nil
	case v == granted:
		return nil, c.fail(ErrNoQuorum) // Too late to be worth anything.
	case v == undecided:
		// Nobody waited for the rest of the votes. One refusal is a sign that the
		// lock is taken; without one, silence is all that was seen.
		v = noQuorum
		if t.no > 0 {
			v = taken
		}
		return nil, c.cut(waited, v.err())
	case raised:
		return nil, c.fail(v.err()) // The votes were this candidate's: nothing to contend for.
	case v == taken && c.isSplit():
		return nil, errSplit
	case v == noQuorum && c.split != nil && !time.Now().Before(c.split.until):
		// The time for the split was over, not that of the nodes. The votes that
		// were split tell more.
		err := c.round.fail(ErrTaken)
		err.Votes = c.split.votes
		c.release(false)
		return nil, err
	default:
		return nil, c.fail(v.err())
	}
}

// isSplit reports whether no token is known to have a quorum, and none of the refusals was
// for somebody else's turn: to contend for that would be to take it.
func (c *candidate) isSplit() bool {
	votes := c.round.copyVotes()
	return top(votes) < c.a.r.need && !slices.ContainsFunc(votes, isForAnother)
}

// cut gives the claim up because cause ended the call, and returns the error for
// it. What the votes so far amount to is no failure of the nodes, so it is not
// counted as one.
func (c *candidate) cut(cause, reason error) error {
	err := c.round.quorumError(reason) // Before the release withdraws what was not sent.
	c.release(true)
	return c.a.endedBy(cause, err)
}

func (c *candidate) fail(reason error) error {
	err := c.round.fail(reason) // As above.
	c.release(errors.Is(reason, ErrNoQuorum) && time.Since(c.round.start) >= c.limit)
	return err
}

// release gives back, in the background, what the claim has or may yet get.
// Each node's connection keeps the order, so the release comes after the lock
// request there, however late that is answered.
//
// tell has it tell the next in line, as an Unlock does: a client that was told of a
// release while this claim had the key has been refused because of it, and nobody else
// would tell that one. Only an attempt that was cut short, or that took its whole time, may
// tell: if each one that fails in a contest did, each would set off the next.
func (c *candidate) release(tell bool) {
	if tell {
		c.claim.tellOthers()
	}
	for i, n := range c.a.r.nodes {
		n.Release(&c.claim.Trace, i)
	}
}
