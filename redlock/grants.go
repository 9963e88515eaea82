package redlock

import (
	"errors"

	"github.com/seed6c881748/redlock/internal/node"
)

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
