package redlock

import (
	"context"
	"errors"
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
func (c *candidate) fence(ctx context.Context) (v verdict, raised bool, waited error) {
	r := c.a.r
	if c.claim.fencing.fence, _ = c.round.fence(); c.claim.fencing.fence != 0 {
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
			c.claim.fencing.fence = fence
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
		rd.grants.exact, _, _ = fenceOf(rd.grants.fences, rd.r.need)
		return raiseCommand(rd.claim.args, rd.grants.exact, rd.claim.fencing)
	}
	rd.again(node.Ask, min(timeout, time.Until(c.until.Mono)), aim, rd.grants.isBelow)
}

// isLateGrant reports whether the answer of node i, to what it was asked before a raise, is a
// grant with a counter below the fence. To wait for it until the next raise would be to wait
// for those that do not answer. rd.mu is held.
func (rd *round) isLateGrant(i int, out node.Outcome) bool {
	return out.Stance == node.Yes && out.Fence < rd.grants.exact && rd.requests[i].Task == nil
}

// grants are the answers to a round of a lock with fencing. They are guarded by the
// round's mu.
type grants struct {
	exact  int64   // of a raise: the fence, the only one that counts; 0: all do
	fence  int64   // on which a quorum agrees; 0: it does not, or there is none yet
	fences []int64 // by node: the counter when it last held the token; 0: not known
	small  [smallNodes]int64
}

func newGrants(n int) *grants {
	g := new(grants)
	if g.fences = g.small[:]; n > smallNodes {
		g.fences = make([]int64, n)
	}
	g.fences = g.fences[:n]
	return g
}

// isBelow reports whether node i is to raise its counter, and otherwise sets what its vote is
// worth for the fence.
func (g *grants) isBelow(i int, b *ballot) bool {
	switch counter := &g.fences[i]; {
	case *counter == 0: // No grant.
	case *counter < g.exact:
		*counter = 0
		return true
	case *counter == g.exact:
		b.stance, b.err = node.Yes, nil
	default:
		*counter = 0
		b.stance, b.err = node.Silent, errOtherFence
	}
	return false
}

// count notes the answer of node i, and returns what it is worth.
func (g *grants) count(i int, out node.Outcome) node.Outcome {
	g.fences[i] = out.Fence
	if out.Stance == node.Yes && !counts(out.Fence, g.exact) {
		out.Stance, out.Err = node.Silent, errOtherFence
	}
	return out
}

// errOtherFence is the vote of a node that has granted the lock while others were being
// asked to raise their counters, with a counter above theirs.
var errOtherFence = errors.New("granted with another fence, too late for it to count")

// counts reports whether a node that holds the token with this counter counts for the
// fence; without one it counts as a grant.
func counts(counter, fence int64) bool { return fence == 0 || counter == fence }

// agree is called when a quorum has granted the lock, and sets the fence if they agree
// on it.
func (g *grants) agree(need int) {
	if fence, exact, _ := fenceOf(g.fences, need); exact >= need {
		g.fence = fence
	}
}

// fenceOf returns the fence for these grants: what need of them have said, and
// otherwise the largest; how many have said exactly that; and how many grants there
// are. 0 is no grant.
func fenceOf(fences []int64, need int) (fence int64, exact, granted int) {
	for _, f := range fences {
		if f == 0 {
			continue
		}
		granted++
		same := 0
		for _, other := range fences {
			if other == f {
				same++
			}
		}
		if same >= need || exact < need && f > fence {
			fence, exact = f, same
		}
	}
	return fence, exact, granted
}
