package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// errSplit: the votes are split so that no token is known to have a quorum.
// It never leaves the package.
var errSplit = errors.New("redlock: split vote")

// A bid is one claim on its way to a lock: a first round that asks all nodes,
// and further ones if the votes are split and this claim leads. All of them use
// one token and one start, so that Until is right whichever round succeeds.
type bid struct {
	a     *acquisition
	ctx   context.Context //nolint:containedctx // A bid lives within one call.
	claim *claim
	until deadline
	start time.Time
	num   int
	round *round        // the latest
	split *split        // of the attempt; nil until its votes have been split
	limit time.Duration // what the latest round may take

	admitted bool          // its next round has a place; see admission
	waited   time.Duration // for that place
}

func (a *acquisition) newBid(ctx context.Context, number int, s *split) *bid {
	// start is read before the first send, or Until would be too late.
	start, wall := time.Now(), a.r.wall()
	c := newClaim(a.resources, a.keys, a.o.owner, a.ttl, len(a.r.nodes))
	if a.fencing != nil {
		c.withFencing(a.fencing, start.Add(wall))
	}
	return &bid{
		a: a, ctx: ctx, num: number, split: s, start: start, claim: c,
		until: newDeadline(start, validity(a.ttl, a.o.driftFactor), wall),
	}
}

// ask starts a round: the first asks all nodes, a further one those that refused.
func (b *bid) ask() {
	rd := b.a.r.newRound(b.ctx, OpLock, b.claim, b.a.lockCommand(b.claim), node.LockRequest, decideLock, b.num)
	rd.until = b.until
	if b.claim.fencing != nil {
		rd.grants = newGrants(len(rd.ballots))
	}
	if b.round != nil {
		rd.succeed(b.round)
	}
	b.round = rd
	// A vote that comes after Until is none.
	timeout := min(b.a.o.nodeTimeout, time.Until(b.until.mono))
	if b.admitted {
		timeout = min(timeout, b.a.o.nodeTimeout-b.waited)
		rd.admitted, b.admitted = b.a.o.nodeTimeout, false
	}
	if b.split != nil {
		timeout = min(timeout, time.Until(b.split.until))
	}
	b.limit = timeout
	rd.ask(b.start, timeout)
}

// outcome waits for the round's decision. After an error other than errSplit
// the claim is being released; with errSplit it still stands.
func (b *bid) outcome(ctx context.Context) (*Lock, error) {
	r := b.a.r
	waited := b.round.wait(ctx, r.calls.closing)
	v, t := b.round.result()
	raised := false
	if v == granted && b.claim.fencing != nil {
		first := b.round
		v, waited = b.fence(ctx)
		raised = b.round != first
		_, t = b.round.result()
	}
	switch {
	case v == granted && !b.until.passed(time.Now(), r.wall()):
		// Even if ctx has ended: the caller gets what was won, and can release it.
		l := &Lock{
			r: r, o: b.a.o, claim: b.claim, attempts: b.num, ttl: b.a.ttl,
			start: b.start, until: b.until, extended: b.start,
		}
		r.held.add(l)
		r.counters.acquired.Add(1)
		return l, nil
	case v == granted:
		return nil, b.fail(ErrNoQuorum) // Too late to be worth anything.
	case v == undecided:
		// Nobody waited for the rest of the votes. One refusal is a sign that the
		// lock is taken; without one, silence is all that was seen.
		v = noQuorum
		if t.no > 0 {
			v = taken
		}
		return nil, b.cut(waited, v.err())
	case raised:
		return nil, b.fail(v.err()) // The votes were this bid's: nothing to contend for.
	case v == taken && b.isSplit():
		return nil, errSplit
	case v == noQuorum && b.split != nil && !time.Now().Before(b.split.until):
		// The time for the split was over, not that of the nodes. The votes that
		// were split tell more.
		b.release(false)
		return nil, b.split.votes.fail(ErrTaken)
	default:
		return nil, b.fail(v.err())
	}
}

// isSplit reports whether no token is known to have a quorum, and none of the refusals was
// for somebody else's turn: to contend for that would be to take it.
func (b *bid) isSplit() bool {
	votes := b.round.copyVotes()
	return top(votes) < b.a.r.need && !slices.ContainsFunc(votes, isForAnother)
}

// cut gives the claim up because cause ended the call, and returns the error for
// it. What the votes so far amount to is no failure of the nodes, so it is not
// counted as one.
func (b *bid) cut(cause, reason error) error {
	err := b.round.quorumError(reason) // Before the release withdraws what was not sent.
	b.release(true)
	return b.a.endedBy(cause, err)
}

// fail gives the claim up and returns the error for it.
func (b *bid) fail(reason error) error {
	err := b.round.fail(reason) // As above.
	b.release(errors.Is(reason, ErrNoQuorum) && time.Since(b.round.start) >= b.limit)
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
func (b *bid) release(tell bool) {
	if tell {
		b.claim.wake = b.a.r.queueKeys(b.claim.resources, b.claim.keys)
	}
	for i, n := range b.a.r.nodes {
		n.Release(&b.claim.Token, i)
	}
}
