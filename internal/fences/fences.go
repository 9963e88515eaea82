// Package fences knows the counters of fencing, and which fence follows from the counters of a quorum.
// The scripts that raise and keep counters are in package redlock.
package fences

import (
	"errors"

	"github.com/seed6c881748/redlock/internal/node"
)

// Fencing tokens over N nodes.
//
// Every node has a counter for every resource, which outlives the lock. A grant sets it to more than it was and says
// to what. The fence of a lock is a number F of which a quorum of nodes is known to have held, each at one instant,
// the lock's token and a counter of exactly F.
//
// Of two locks on one resource that both have a fence, take a node that both count. Between the two instants it has
// granted the second lock, and so raised its counter above the first one's F: the second F is larger. If the first
// lock was got before the second was asked for, its instant came first. Neither clocks nor ttls nor anybody's speed
// is a part of the argument; docs/safety.md has it in full.
//
// "Exactly" is what matters. A counter that is above F, though the node holds the token, may have got there by a
// grant that came after another lock's instant; to count it lets both locks have the same F.

// Mark begins the names of counters. Next to its lock every resource has a counter, a key that outlives the
// lock. A grant raises the counters of all its resources to one value, which is above all that they have been.
const Mark = "f:"

// Max is the largest fence: up to it, Lua's numbers are exact. A counter that has reached it grants nothing.
const Max = 1<<53 - 1

// Decode reads the fence of a grant; decode reads the other answers.
func Decode(decode func(any) node.Outcome) func(any) node.Outcome {
	return func(reply any) node.Outcome {
		if fence, ok := reply.(int64); ok && fence > 0 && fence <= Max {
			return node.Outcome{Stance: node.Yes, Fence: fence}
		}
		return decode(reply)
	}
}

// Grants are the answers to a round of a lock with fencing. They are not safe for concurrent use.
type Grants struct {
	Exact int64 // of a raise: the fence, the only one that counts; 0: all do
	Fence int64 // on which a quorum agrees; 0: it does not, or there is none yet

	counters []int64 // by node: the counter when it last held the token; 0: not known
	small    [5]int64
}

// NewGrants returns those of a round of n nodes.
func NewGrants(n int) *Grants {
	g := new(Grants)
	g.counters = append(g.small[:0], make([]int64, n)...)
	return g
}

// errOther is the vote of a node that has granted the lock while others were being
// asked to raise their counters, with a counter above theirs.
var errOther = errors.New("granted with another fence, too late for it to count")

// Weigh notes the answer of node i, and returns what it is worth.
func (g *Grants) Weigh(i int, out node.Outcome) node.Outcome {
	g.counters[i] = out.Fence
	if out.Stance == node.Yes && !Counts(out.Fence, g.Exact) {
		out.Stance, out.Err = node.Silent, errOther
	}
	return out
}

// Counts reports whether a node that holds the token with this counter counts for the fence.
// Without a fence, it counts as a grant.
func Counts(counter, fence int64) bool { return fence == 0 || counter == fence }

// Recount reports whether node i is to raise its counter to Exact, and otherwise returns what its
// earlier vote is worth for that fence.
func (g *Grants) Recount(i int, vote node.Outcome) (raise bool, worth node.Outcome) {
	switch counter := &g.counters[i]; {
	case *counter == 0: // No grant.
	case *counter < g.Exact:
		*counter, raise = 0, true
	case *counter == g.Exact:
		vote.Stance, vote.Err = node.Yes, nil
	default:
		*counter, vote.Stance, vote.Err = 0, node.Silent, errOther
	}
	return raise, vote
}

// Agree is called when a quorum has granted the lock, and sets the fence if they agree on it.
func (g *Grants) Agree(need int) {
	if fence, exact, _ := g.Of(need); exact >= need {
		g.Fence = fence
	}
}

// Of returns the fence for these grants; see the function.
func (g *Grants) Of(need int) (fence int64, exact, granted int) { return Of(g.counters, need) }

// Of returns the fence for grants with these counters, 0 for none. The fence is the number that
// need of them have said, or else the largest. exact is how many have said exactly that number, and
// granted is how many grants there are.
func Of(counters []int64, need int) (fence int64, exact, granted int) {
	for _, c := range counters {
		if c == 0 {
			continue
		}
		granted++
		same := 0
		for _, other := range counters {
			if other == c {
				same++
			}
		}
		if same >= need || exact < need && c > fence {
			fence, exact = c, same
		}
	}
	return fence, exact, granted
}
