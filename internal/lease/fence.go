package lease

import (
	"errors"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// Fencing tokens over N nodes; package fences has the counters.
//
// The fence of a lock is a number F of which a quorum of nodes is known to have held, each at one instant,
// the lock's token and a counter of exactly F.
//
// Of two locks on one resource that both have a fence, take a node that both count. Between the two instants it has
// granted the second lock, and so raised its counter above the first one's F: the second F is larger. If the first
// lock was got before the second was asked for, its instant came first. Neither clocks nor ttls nor anybody's speed
// is a part of the argument; docs/safety.md has it in full.
//
// "Exactly" is what matters. A counter that is above F, though the node holds the token, may have got there by a
// grant that came after another lock's instant; to count it lets both locks have the same F.

// errOther is the vote of a node that has granted the lock while others were being
// asked to raise their counters, with a counter above theirs.
var errOther = errors.New("granted with another fence, too late for it to count")

// A Fencing is the further state of a round that must agree on a fence.
type Fencing struct {
	Fence int64 // on which a quorum has agreed; 0: there is none
	Below int64 // with it: the numbers above this one, up to the fence, are the lock's
	Aim   int64 // to which nodes raise their counters: the only one that counts; 0: all do

	raises   int
	raiseBy  time.Duration // since the start: until when nodes are asked to raise
	counters []int64       // by node, when it last held the token; 0: not known
	small    [5]int64
	block    *block // nil: of the numbers up to the fence only the fence itself is the lock's
}

// A block is the set of numbers that belong to one lock: those up to its fence that are above what every counted node's
// counter was before. No other lock has one of them, or can get it. Take another lock, and a node that both count. If
// the node granted the other lock before, that lock's fence is at most what this lock found there. If it granted it
// after, the other lock found at least this lock's fence. docs/safety.md has the proof, which Coq has checked.
type block struct {
	set   []int64 // by node: its counter as it has last answered
	found []int64 // by node: its counter before the grant; if that is not known, the counter now less one
}

// OwnBlock has the round find out which numbers below its fence are its own. Before Begin only.
func (f *Fencing) OwnBlock() {
	n := len(f.counters)
	f.block = &block{set: make([]int64, n), found: make([]int64, n)}
}

// note takes what node i has granted, or raised its counter to. A raise has to find the counter as the grant has left
// it: if not, somebody was granted in between.
func (b *block) note(i int, out *node.Outcome) {
	switch {
	case out.Stance != node.Yes:
		return
	case b.set[i] == 0 && out.Found > 0:
		b.found[i] = out.Found
	case b.set[i] == 0 || b.set[i] != out.Found:
		b.found[i] = out.Fence - 1
	}
	b.set[i] = out.Fence
}

// below is the lower bound of the block: all larger numbers up to the fence are the lock's. The fence is one of them, even
// if a node lies.
func (f *Fencing) below(fence int64) (below int64) {
	if f.block == nil {
		return fence - 1
	}
	for i, c := range f.counters {
		if c == fence {
			below = max(below, f.block.found[i])
		}
	}
	return min(below, fence-1)
}

// NewFencing returns that of a round of n nodes.
func NewFencing(n int) *Fencing {
	f := new(Fencing)
	f.counters = append(f.small[:0], make([]int64, n)...)
	return f
}

// IsRaising reports whether nodes were asked to raise their counters.
func (r *Round) IsRaising() bool { return r.Fencing != nil && r.Fencing.Aim != 0 }

// Agreed returns the fence for grants with these counters, 0 for none: the number that need of them have said, or else
// the largest. exact is how many have said exactly that number, and granted is how many grants there are.
func Agreed(counters []int64, need int) (fence int64, exact, granted int) {
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

// Counts reports whether a node that holds the token with this counter counts for the fence.
// Without a fence, it counts as a grant.
func Counts(counter, fence int64) bool { return fence == 0 || counter == fence }

// decideFence is decide for a lock that a quorum has granted. Without a fence it is none yet. Usually a quorum has said
// the same, and there is nothing to do. Otherwise those that have said less raise their counters.
func (r *Round) decideFence(v Verdict, now time.Time) Effect {
	f := r.Fencing
	fence, exact, granted := Agreed(f.counters, r.Need)
	switch {
	case v == Granted && (r.Stage == Raising || exact >= r.Need):
		f.Fence = fence
		// Not as a turn begins: whoever has got the lock is not in step with votes that come late.
		f.Below = f.below(fence)
		return Decided | r.end(Granted)
	case v == Granted:
		r.Stage, f.raiseBy = Raising, r.since(now)+r.Patience
		return Raised | More
	case granted >= r.Need && r.since(now) < f.raiseBy && f.raises < len(r.Ballots) && !r.Until().Passed(r.Clock(now)):
		// Each time at least one more node has lost the key, or lies. Others that came late may still do.
		return Decided | More
	default:
		return Decided | r.fail(v, now) // The votes were this claim's: nothing to contend for.
	}
}

// raise asks the nodes that have granted the lock with a counter below the fence to raise it, in one more round trip.
// What the others have said is worth something only if it is exactly that. What comes late is raised when it comes.
func (r *Round) raise(now time.Time) Effect {
	f := r.Fencing
	f.Aim, _, _ = Agreed(f.counters, r.Need)
	f.raises++
	return r.again(now, min(f.raiseBy-r.since(now), r.Until().Mono.Sub(now)), func(i int, b *Ballot) bool {
		counter := f.counters[i]
		switch {
		case counter == 0: // No grant.
		case counter < f.Aim:
			f.counters[i] = 0
			return true
		case counter == f.Aim:
			b.Stance, b.Err = node.Yes, nil
		default:
			f.counters[i], b.Stance, b.Err = 0, node.Silent, errOther
		}
		return false
	})
}

// weigh notes what node i has answered, and sets what a grant is worth while others raise their counters. It reports
// whether that is nothing yet: the node was asked before the raise, and its counter is below the fence. It raises it,
// too. To wait with that until the next raise would be to wait for those that do not answer.
func (r *Round) weigh(i int, out *node.Outcome) (late bool) {
	f, b := r.Fencing, &r.Ballots[i]
	if f.block != nil {
		f.block.note(i, out)
	}
	if out.Stance == node.Yes && !Counts(out.Fence, f.Aim) {
		if out.Fence < f.Aim && b.question < r.Question {
			b.question, b.fresh = r.Question, true
			return true
		}
		out.Stance, out.Err = node.Silent, errOther
	}
	f.counters[i] = out.Fence
	return false
}
