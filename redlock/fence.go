package redlock

import (
	"context"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// fence returns the fence on which a quorum has agreed, 0 if it has not, and how
// many grants there are.
func (rd *round) fence() (fence int64, granted int) {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	_, _, granted = rd.grants.Of(rd.r.need)
	return rd.grants.Fence, granted
}

// fence agrees on a fence (see package fences) with the nodes that have granted the lock. Usually a
// quorum has said the same, and there is nothing to do. Otherwise those that have said
// less are asked to raise their counters, in one more round trip. If one of them has
// lost the key meanwhile, others that came late may still do.
func (c *candidate) fence(ctx context.Context) (v verdict, raised bool, waited error) {
	r := c.a.r
	if c.claim.fence, _ = c.round.fence(); c.claim.fence != 0 {
		return granted, false, nil
	}
	r.counters.raised.Add(1)
	until := time.Now().Add(c.a.o.nodeTimeout)
	for range r.nodes { // Each time at least one more has lost the key, or lies.
		c.raise(time.Until(until))
		waited = c.round.wait(ctx, r.calls.Closing)
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
		rd.grants.Exact, _, _ = rd.grants.Of(rd.r.need)
		return raiseCommand(rd.claim, rd.grants.Exact)
	}
	rd.again(node.Ask, min(timeout, time.Until(c.until.Mono)), aim, func(i int, b *ballot) bool {
		more, out := rd.grants.Recount(i, node.Outcome{Stance: b.stance, Err: b.err})
		b.stance, b.err = out.Stance, out.Err
		return more
	})
}

// isLateGrant reports whether the answer of node i, to what it was asked before a raise, is a
// grant with a counter below the fence. To wait for it until the next raise would be to wait
// for those that do not answer. rd.mu is held.
func (rd *round) isLateGrant(i int, out node.Outcome) bool {
	return out.Stance == node.Yes && out.Fence < rd.grants.Exact && rd.requests[i].Task == nil
}
