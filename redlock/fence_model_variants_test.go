package redlock

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/fences"
)

// Rules that are wrong, each in one thing, and for each of them a shortest way to two
// locks with one fence, or to a fence that is not larger. They show that the search
// finds what it looks for, and why each rule is there. Expiry is a step of its own, to
// be read.

// raiseAnyway acknowledges a raise where the counter is above the fence already.
func raiseAnyway(n *modelNode, token uint8, wants []int, fence int64) int64 {
	if mine, _, top, _ := n.look(token, wants); mine == len(wants) && top > fence {
		return fence
	}
	return n.raise(token, wants, fence)
}

// raiseAnybody raises the counters whoever holds the keys.
func raiseAnybody(n *modelNode, token uint8, wants []int, fence int64) int64 {
	if _, _, top, _ := n.look(token, wants); top > fence {
		return 0
	}
	for _, r := range wants {
		n.counter[r] = fence
	}
	return fence
}

// lockAgain counts a duplicate as another grant.
func lockAgain(n *modelNode, token uint8, wants []int, proposal int64) int64 {
	if mine, _, _, _ := n.look(token, wants); mine == len(wants) {
		n.expire(token, wants, true)
	}
	return n.lock(token, wants, proposal)
}

// lockLevel does not count a grant.
func lockLevel(n *modelNode, token uint8, wants []int, proposal int64) int64 {
	mine, others, top, _ := n.look(token, wants)
	if others > 0 {
		return 0
	}
	if mine < len(wants) {
		top = max(top, proposal)
		n.set(token, wants, top)
	}
	return top
}

// largest and smallest take a fence without asking for nodes that hold exactly that.
func largest(counters []int64, need int) (fence int64, exact, granted int) {
	_, _, granted = fences.Of(counters, need)
	fence = slices.Max(counters)
	return fence, granted, granted
}

func smallest(counters []int64, need int) (fence int64, exact, granted int) {
	for _, f := range counters {
		if f != 0 && (fence == 0 || f < fence) {
			fence = f
		}
	}
	_, _, granted = fences.Of(counters, need)
	return fence, granted, granted
}

// acquirers are as many as there are proposals, of one resource.
func acquirers(proposals ...int64) []modelAcquirer {
	all := make([]modelAcquirer, len(proposals))
	for k, p := range proposals {
		all[k] = modelAcquirer{token: uint8(k + 1), wants: []int{0}, proposal: p}
	}
	return all
}

func TestFenceModelFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, wrong := range []struct {
		name  string
		rules modelRules
	}{
		{"a late grant counts if it is not below the fence", modelRules{counts: func(counter, fence int64) bool { return counter >= fence }}},
		{"a raise is acknowledged above the fence", modelRules{raise: raiseAnyway}},
		{"and a duplicate counts as a grant", modelRules{duplicates: 2, lock: lockAgain, raise: raiseAnyway}},
		{"a raise does not look at the token", modelRules{raise: raiseAnybody}},
		{"no raise, the largest", modelRules{fenceOf: largest}},
		{"no raise, the smallest", modelRules{fenceOf: smallest}},
		{"a grant does not count", modelRules{lock: lockLevel, acquirers: acquirers(1, 1)}},
		{"attempts share a token", modelRules{acquirers: []modelAcquirer{{token: 1, wants: []int{0}}, {token: 1, wants: []int{0}}}}},
		{"half of the nodes are a quorum", modelRules{nodes: 4, quorum: 2}},
		// This one is not promised: the counters must not be lost.
		{"a node loses its data", modelRules{losses: 1}},
	} {
		t.Run(wrong.name, func(t *testing.T) {
			rules := wrong.rules
			rules.nodes = max(rules.nodes, 3)
			rules.expiry, rules.raises = true, 1
			if rules.acquirers == nil {
				rules.acquirers = acquirers(0, 0)
			}
			trace, states := newFenceModel(rules).shortest()
			require.NotEmpty(t, trace, "nothing wrong in %d states", states)
			assert.LessOrEqual(t, len(trace), 20)
			for _, line := range trace {
				t.Log(line)
			}
			t.Log(len(trace), "steps;", states, "states")
			// What the other searches leave out hides nothing.
			rules.expiry, rules.repairs = false, true
			_, holds := newFenceModel(rules).explore()
			assert.False(t, holds)
		})
	}
}
