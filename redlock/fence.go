package redlock

import (
	"context"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// Fencing tokens over N nodes.
//
// Every node has a counter for every resource, which outlives the lock. A grant sets
// it to more than it was and says to what. The fence of a lock is a number F of which
// a quorum of nodes is known to have held, each at one instant, the lock's token and a
// counter of exactly F.
//
// Of two locks on one resource that both have a fence, take a node that both count.
// Between the two instants it has granted the second lock, and so raised its counter
// above the first one's F: the second F is larger. If the first lock was got before
// the second was asked for, its instant came first. Neither clocks nor ttls nor
// anybody's speed is a part of the argument; docs/safety.md has it in full.
//
// "Exactly" is what matters. A counter that is above F, though the node holds the
// token, may have got there by a grant that came after another lock's instant; to
// count it lets both locks have the same F.

// fence returns the fence on which a quorum has agreed, 0 if it has not, and how
// many grants there are.
func (rd *round) fence() (fence int64, granted int) {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	_, _, granted = fenceOf(rd.grants.fences, rd.r.need)
	return rd.grants.fence, granted
}

// fence agrees on a fence with the nodes that have granted the lock. Usually a
// quorum has said the same, and there is nothing to do. Otherwise those that have said
// less are asked to raise their counters, in one more round trip. If one of them has
// lost the key meanwhile, others that came late may still do.
func (b *bid) fence(ctx context.Context) (v verdict, waited error) {
	r := b.a.r
	if b.claim.fencing.fence, _ = b.round.fence(); b.claim.fencing.fence != 0 {
		return granted, nil
	}
	r.counters.raised.Add(1)
	until := time.Now().Add(b.a.o.nodeTimeout)
	for range r.nodes { // Each time at least one more has lost the key, or lies.
		b.raise(time.Until(until))
		waited = b.round.wait(ctx, r.calls.closing)
		v, _ = b.round.result()
		fence, left := b.round.fence()
		switch {
		case v == granted:
			b.claim.fencing.fence = fence
			return v, nil
		case v == undecided, left < r.need, !time.Now().Before(until):
			return v, waited
		}
	}
	return v, waited
}

// raise starts a round that asks the nodes with smaller counters to raise them.
func (b *bid) raise(timeout time.Duration) {
	rd := b.a.r.newRound(b.ctx, OpLock, b.claim, node.Command{}, node.Ask, decideLock, b.num)
	rd.until = b.until
	rd.raise(b.round)
	b.round = rd
	rd.ask(b.start, min(timeout, time.Until(b.until.mono)))
}

// raise makes rd the round in which the nodes that have granted the lock in prev, or
// in the one before, are asked to raise their counters. As in succeed, the other votes
// are kept, and those that prev still waits for come. Before ask only.
func (rd *round) raise(prev *round) {
	prev.mu.Lock()
	defer prev.mu.Unlock()
	fence, _, _ := fenceOf(prev.grants.fences, rd.r.need)
	rd.start, rd.grants = prev.start, newGrants(len(prev.ballots))
	rd.grants.exact = fence
	rd.task.Command = raiseCommand(rd.claim.args, fence, rd.claim.fencing)
	for i, b := range prev.ballots {
		switch counter := prev.grants.fences[i]; {
		case b.stance == node.Pending:
			rd.requests[i].Task = nil
		case counter == 0:
			rd.skip(i, b)
		case counter == fence:
			rd.grants.fences[i] = fence
			b.stance, b.err = node.Yes, nil
			rd.skip(i, b)
		case counter > fence:
			b.stance, b.err = node.Silent, errOtherFence
			rd.skip(i, b)
		}
	}
	prev.next = rd
}
