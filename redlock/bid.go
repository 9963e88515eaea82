package redlock

import (
	"context"
	"errors"
	"time"
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
	round *round // the latest
}

func (a *acquisition) newBid(ctx context.Context, number int) *bid {
	// start is read before the first send, or Until would be too late.
	start, wall := time.Now(), a.r.wall()
	return &bid{
		a: a, ctx: ctx, num: number, start: start,
		claim: newClaim(a.resources, a.keys, a.ttl, len(a.r.nodes)),
		until: newDeadline(start, validity(a.ttl, a.o.driftFactor), wall),
	}
}

// ask starts a round. kept are the votes of the one before, if any: only nodes
// that refused are asked again. Not those that have not been heard yet: of one
// claim, a node never has two lock requests in flight, or the refusal of one
// could be taken for the whole truth about what the claim has left there.
func (b *bid) ask(kept []Vote) {
	rd := b.a.r.newRound(b.ctx, OpLock, b.claim, b.claim.lockCommand(), lockKind, decideLock, b.num)
	rd.until = b.until.mono
	for i, v := range kept {
		if v.stance != no {
			rd.skip(i, v)
		}
	}
	b.round = rd
	// A vote that comes after Until is none.
	rd.ask(b.start, min(b.a.o.nodeTimeout, time.Until(b.until.mono)))
}

// outcome waits for the round's decision. After an error other than errSplit
// the claim is being released; with errSplit it still stands.
func (b *bid) outcome(ctx context.Context) (*Lock, error) {
	r := b.a.r
	waited := b.round.wait(ctx, r.closing)
	v, t := b.round.result()
	switch {
	case v == granted && !b.until.passed(time.Now(), r.wall()):
		// Even if ctx has ended: the caller gets what was won, and can release it.
		l := &Lock{r: r, o: b.a.o, claim: b.claim, attempts: b.num, until: b.until}
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
		return nil, b.a.endedBy(waited, b.fail(v.err()))
	case v == taken && top(b.round.copyVotes()) < r.need:
		return nil, errSplit
	default:
		return nil, b.fail(v.err())
	}
}

// fail gives the claim up and returns the error for it.
func (b *bid) fail(reason error) error {
	b.release()
	return b.a.r.fail(b.round, reason)
}

// release gives back, in the background, what the claim has or may yet get.
// Each node's connection keeps the order, so the release comes after the lock
// request there, however late that is answered.
func (b *bid) release() {
	for i, n := range b.a.r.nodes {
		n.release(b.claim, i)
	}
}
