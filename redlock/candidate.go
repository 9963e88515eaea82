package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/clockwatch"
	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/node"
)

// A turn is what an attempt of a Lock that waits says of its place in line. The zero turn is that of
// an attempt without one.
type turn struct {
	inLine bool      // it gets in line if it is refused
	began  time.Time // to wait
	yields bool      // it gives way to whom a free resource is reserved for
}

// minLine is the least life of a line, from when somebody last got in.
const minLine = time.Minute

// errSplit: the votes are split so that no token is known to have a quorum. It never leaves the package.
var errSplit = errors.New("redlock: split vote")

// A candidate is one claim on its way to a lock: a round that asks all nodes, and some of them
// once more if the votes are split and this claim leads. All of that is with one token and
// one start, so that Until is right whichever answer decides.
type candidate struct {
	*acquisition

	ctx   context.Context //nolint:containedctx // A candidate lives within one call.
	claim *claim
	turn  turn
	until clockwatch.Deadline
	start time.Time
	num   int
	round *round
	limit time.Duration // what the nodes got to answer, when they were asked last

	admitted bool          // its round has a place; see admission
	waited   time.Duration // for that place

	split *split // nil until votes of the attempt have been split
}

// newCandidate makes a claim for an attempt of that number.
func (a *acquisition) newCandidate(ctx context.Context, number int, turn turn) *candidate {
	// start is read before the first send, or Until would be too late.
	start, lead := a.r.clock.Now()
	c := a.r.newClaim(&a.target, a.o.owner, a.lease)
	c.leaves = a.o.minHold > 0
	if a.counters != nil {
		c.askFence(start.Add(a.r.wall()), a.o.fenceLife)
	}
	return &candidate{
		acquisition: a, ctx: ctx, num: number, turn: turn, start: start, claim: c,
		until: clockwatch.NewDeadline(start, a.lease.validity, lead),
	}
}

// lock asks all nodes. If it fails with errSplit the claim still stands; after any other error it is being released.
func (c *candidate) lock() (*Lock, error) {
	rd := c.r.newRound(c.ctx, OpLock, c.claim, c.request(), node.LockRequest, decideLock, c.num)
	rd.until, rd.task.Lives = c.until, c.lease.validity
	if c.claim.counters != nil {
		rd.grants = fences.NewGrants(len(rd.ballots))
	}
	c.round = rd
	c.setLimit()
	if c.admitted {
		rd.admitted = c.o.nodeTimeout
		c.limit = min(c.limit, c.o.nodeTimeout-c.waited)
	}
	rd.ask(c.start, c.limit)
	return c.outcome()
}

// request is the lock request, which gets in line where the turn says so.
func (c *candidate) request() node.Command {
	t, o := &c.turn, c.o
	if !t.inLine {
		return lockCommand(c.claim)
	}
	// A line must outlive the wait until its sessions come back to it.
	life := max(2*(o.retryDelay+o.retryJitter), minLine)
	return queueCommand(c.claim, c.r.channel, time.Since(t.began), life, t.yields)
}

func (c *candidate) askRefused() {
	c.setLimit()
	c.round.again(node.LockRequest, c.limit, c.request, func(_ int, v *ballot) bool { return v.stance == node.No || v.stance == node.Gone })
}

// setLimit sets what the nodes get to answer: a vote that comes after Until is none.
func (c *candidate) setLimit() {
	c.limit = min(c.o.nodeTimeout, time.Until(c.until.Mono))
	if c.split != nil {
		c.limit = min(c.limit, time.Until(c.split.until))
	}
}

// outcome waits for the round's decision. See lock for what errors mean.
func (c *candidate) outcome() (*Lock, error) {
	r := c.r
	waited := c.round.wait(c.ctx, r.calls.Closing)
	v, t := c.round.result()
	raised := false
	if v == granted && c.claim.counters != nil {
		v, raised, waited = c.fence()
		_, t = c.round.result()
	}
	switch {
	case v == granted && c.until.Remaining(r.clock.Now()) > c.o.minHold:
		// Even if ctx has ended: the caller gets what was won, and can release it.
		l := &Lock{
			r: r, o: c.o, claim: c.claim, attempts: c.num, lease: c.lease,
			start: c.start, until: c.until, extended: c.start,
		}
		r.watch.Add(l, &l.entry)
		r.counters.Acquired.Add(1)
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
		// The time for the split was over, not that of the nodes. The votes that were split tell more.
		err := c.round.fail(ErrTaken)
		err.Votes = c.split.votes
		c.release(false)
		return nil, err
	default:
		return nil, c.fail(v.err())
	}
}

// fence agrees on a fence (see package fences) with the nodes that have granted the lock. Usually a quorum has said
// the same, and there is nothing to do. Otherwise those that have said less are asked to raise their counters, in one
// more round trip. If one of them has lost the key meanwhile, others that came late may still do.
func (c *candidate) fence() (v verdict, raised bool, waited error) {
	r := c.r
	if c.claim.fence, _ = c.round.fence(); c.claim.fence != 0 {
		return granted, false, nil
	}
	r.counters.Raised.Add(1)
	until := time.Now().Add(c.o.nodeTimeout)
	for range r.nodes { // Each time at least one more has lost the key, or lies.
		c.raise(time.Until(until))
		waited = c.round.wait(c.ctx, r.calls.Closing)
		v, _ = c.round.result()
		fence, left := c.round.fence()
		switch {
		case v == granted:
			c.claim.fence = fence
			return v, true, nil
		case v == undecided, left < r.need, !time.Now().Before(until):
			return v, true, waited
		}
	}
	return v, true, waited
}

// raise asks the nodes that have granted the lock with a counter below the fence to raise
// it. What comes late is raised when it comes; see isLateGrant.
func (c *candidate) raise(timeout time.Duration) {
	rd := c.round
	aim := func() node.Command {
		rd.judge = decideRaise
		rd.grants.Exact, _, _ = rd.grants.Of(rd.r.need)
		return raiseCommand(rd.claim, rd.grants.Exact)
	}
	rd.again(node.Ask, min(timeout, time.Until(c.until.Mono)), aim, func(i int, b *ballot) bool {
		more, out := rd.grants.Recount(i, node.Outcome{Stance: b.stance, Err: b.err})
		b.stance, b.err = out.Stance, out.Err
		return more
	})
}

// isSplit reports whether no token is known to have a quorum, and none of the refusals was
// for somebody else's turn: to contend for that would be to take it.
func (c *candidate) isSplit() bool {
	votes := c.round.copyVotes()
	_, _, most := countVotes(votes)
	return most < c.r.need && !slices.ContainsFunc(votes, isForAnother)
}

// cut gives the claim up because cause ended the call, and returns the error for it. What the votes so far amount to
// is no failure of the nodes, so it is not counted as one.
func (c *candidate) cut(cause, reason error) error {
	err := c.round.quorumError(reason) // Before the release withdraws what was not sent.
	c.release(true)
	return c.endedBy(cause, err)
}

func (c *candidate) fail(reason error) error {
	err := c.round.fail(reason) // As above.
	c.release(errors.Is(reason, ErrNoQuorum) && time.Since(c.round.start) >= c.limit)
	return err
}

// release gives back, in the background, what the claim has or may yet get. Each node's connection keeps the order,
// so the release comes after the lock request there, however late that is answered.
//
// tell has it tell the next in line, as an Unlock does: a client that was told of a release while this claim had the
// key has been refused because of it, and nobody else would tell that one. Only an attempt that was cut short, or
// that took its whole time, may tell: if each one that fails in a contest did, each would set off the next.
func (c *candidate) release(tell bool) {
	if tell {
		c.claim.tellOthers()
	}
	for i, n := range c.r.nodes {
		n.Release(&c.claim.Trace, i)
	}
}
