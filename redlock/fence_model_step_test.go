package redlock

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// A modelStep is one thing that may happen in a state.
type modelStep struct {
	kind   modelStepKind
	k, i   uint8 // acquirer and node, or resource in the place of the acquirer
	value  uint8 // a counter or a fence
	broken bool  // a property does not hold
	to     modelState
}

type modelStepKind uint8

const (
	lockStep modelStepKind = iota
	raiseStep
	repairStep
	expiryStep
	lossStep
	chooseStep
	succeedStep
)

func (st *modelStep) String() string {
	who := string(rune('A' + st.k))
	switch st.kind {
	case lockStep:
		return fmt.Sprintf("n%d grants %s %d", st.i, who, st.value)
	case raiseStep:
		return fmt.Sprintf("n%d raises %s to %d", st.i, who, st.value)
	case repairStep:
		return fmt.Sprintf("n%d repairs %s with %d", st.i, who, st.value)
	case expiryStep:
		return fmt.Sprintf("n%d: key %d expires", st.i, st.k)
	case lossStep:
		return fmt.Sprintf("n%d loses its data", st.i)
	case chooseStep:
		return fmt.Sprintf("%s decides to raise to %d", who, st.value)
	case succeedStep:
		return fmt.Sprintf("%s succeeds with %d", who, st.value)
	}
	return "?"
}

// A fenceModel are rules with what the search makes of them.
type fenceModel struct {
	modelRules

	decisions map[decisionKey]modelDecision
	fences    []int64   // scratch, as is
	node      modelNode // one here is none on the heap
}

func newFenceModel(rules modelRules) *fenceModel {
	return &fenceModel{
		modelRules: rules.withDefaults(), decisions: make(map[decisionKey]modelDecision),
		fences: make([]int64, rules.nodes),
	}
}

// next appends the steps that may be next to steps. One that changes nothing is none.
func (m *fenceModel) next(s *modelState, steps []modelStep) []modelStep {
	for k := range m.acquirers {
		c := s.clients[k]
		for i := range m.nodes {
			steps = m.locks(s, k, i, steps)
			steps = m.raisesOf(s, k, i, c.raised, steps)
			if c.fence != 0 && m.repairs {
				steps = m.repairsOf(s, k, i, int64(c.fence), steps)
			}
		}
		if c.fence == 0 {
			steps = m.decide(s, k, c, steps)
		}
	}
	return m.fail(s, steps)
}

// add appends the step of node i to the state n and word w, if it is one.
func (m *fenceModel) add(s *modelState, kind modelStepKind, k, i int, value int64, w uint64, n *modelNode, steps []modelStep) []modelStep {
	if w = packNode(w, n); w == s.nodes[i] {
		return steps
	}
	st := modelStep{kind: kind, k: uint8(k), i: uint8(i), value: uint8(value), to: *s}
	st.to.nodes[i] = w
	return append(steps, st)
}

// locks are the grants of node i to acquirer k: with the keys as they are, and with
// those gone that may have expired.
func (m *fenceModel) locks(s *modelState, k, i int, steps []modelStep) []modelStep {
	a, old := m.acquirers[k], unpackNode(s.nodes[i])
	first, duplicates := len(steps), m.duplicatesIn(s)
	for _, gone := range []bool{false, true} {
		before := old
		if gone {
			if before.expire(a.token, a.wants, true); m.expiry || before == old {
				continue
			}
		}
		n := &m.node
		*n = before
		counter := m.lock(n, a.token, a.wants, a.proposal)
		if counter == 0 {
			continue
		}
		w := m.hear(s.clients[k], s.nodes[i], k, counter)
		switch times := timesGranted(w, k); {
		case times == 0, *n != before && times == 1 && duplicates < m.duplicates:
			w = addGrant(w, k)
		case *n != before:
			continue
		}
		steps = m.add(s, lockStep, k, i, counter, w, n, steps)
	}
	if len(steps) > first && !m.started(s, k) {
		floor := m.floor(s, k)
		for j := range steps[first:] {
			steps[first+j].to.clients[k] = modelClient{floor: floor}
		}
	}
	return steps
}

func (m *fenceModel) duplicatesIn(s *modelState) (n int) {
	for _, w := range s.nodes[:m.nodes] {
		for k := range m.acquirers {
			n += max(0, timesGranted(w, k)-1)
		}
	}
	return n
}

func (m *fenceModel) started(s *modelState, k int) bool {
	return slices.ContainsFunc(s.nodes[:m.nodes], func(w uint64) bool { return timesGranted(w, k) > 0 })
}

// floor is the largest fence of those that have succeeded and share a resource with k.
func (m *fenceModel) floor(s *modelState, k int) (floor uint8) {
	for o := range m.acquirers {
		if m.share(k, o) {
			floor = max(floor, s.clients[o].fence)
		}
	}
	return floor
}

func (m *fenceModel) share(k, o int) bool {
	return k != o && slices.ContainsFunc(m.acquirers[k].wants, func(r int) bool { return slices.Contains(m.acquirers[o].wants, r) })
}

// hear returns node i's word w with a reply to acquirer k, if that still matters: while
// the acquirer raises, only what counts, and larger fences if it may raise to them.
func (m *fenceModel) hear(c modelClient, w uint64, k int, counter int64) uint64 {
	fence, more := c.raising(), bits.OnesCount16(c.raised) < m.raises
	if c.fence != 0 || fence != 0 && !m.counts(counter, fence) && (!more || counter < fence) {
		return w
	}
	return addReply(w, k, counter)
}

func (m *fenceModel) raisesOf(s *modelState, k, i int, raised uint16, steps []modelStep) []modelStep {
	a := m.acquirers[k]
	for ; raised != 0; raised &= raised - 1 {
		n, w := &m.node, s.nodes[i]
		*n = unpackNode(w)
		fence := int64(bits.TrailingZeros16(raised) + 1)
		answer := m.raise(n, a.token, a.wants, fence)
		if answer == 0 {
			continue
		}
		w = m.hear(s.clients[k], w, k, answer)
		steps = m.add(s, raiseStep, k, i, fence, w, n, steps)
	}
	return steps
}

func (m *fenceModel) repairsOf(s *modelState, k, i int, fence int64, steps []modelStep) []modelStep {
	a, n := m.acquirers[k], unpackNode(s.nodes[i])
	if !m.expiry {
		n.expire(a.token, a.wants, false)
	}
	if n.repair(a.token, a.wants, fence) != 1 {
		return steps
	}
	return m.add(s, repairStep, k, i, fence, s.nodes[i], &n, steps)
}

// fail are the steps of nodes alone.
func (m *fenceModel) fail(s *modelState, steps []modelStep) []modelStep {
	for i := range m.nodes {
		for r := 0; m.expiry && r < modelResources; r++ {
			n := unpackNode(s.nodes[i])
			n.token[r] = 0
			steps = m.add(s, expiryStep, r, i, 0, s.nodes[i], &n, steps)
		}
		if int(s.losses) < m.losses {
			first := len(steps)
			steps = m.add(s, lossStep, 0, i, 0, s.nodes[i], new(modelNode), steps)
			for j := range steps[first:] {
				steps[first+j].to.losses++
			}
		}
	}
	return steps
}

// decide are the decisions of acquirer k, whichever of the replies it has heard.
func (m *fenceModel) decide(s *modelState, k int, c modelClient, steps []modelStep) []modelStep {
	d := m.decision(s, k, c.raising())
	for set := d.raise; set != 0 && bits.OnesCount16(c.raised) < m.raises; set &= set - 1 {
		fence := bits.TrailingZeros64(set) + 1
		st := modelStep{kind: chooseStep, k: uint8(k), value: uint8(fence), to: *s}
		to := modelClient{floor: c.floor, raised: c.raised | 1<<(fence-1)}
		st.to.clients[k] = to
		for i, w := range s.nodes[:m.nodes] {
			st.to.nodes[i] = dropReplies(w, k)
			for set := replies(w, k); set != 0; set &= set - 1 {
				st.to.nodes[i] = m.hear(to, st.to.nodes[i], k, int64(bits.TrailingZeros64(set)+1))
			}
		}
		steps = append(steps, st)
	}
	for set := d.succeed; set != 0; set &= set - 1 {
		steps = append(steps, m.succeed(s, k, c, uint8(bits.TrailingZeros64(set)+1)))
	}
	return steps
}

// succeed is acquirer k's success, and checks the properties. What it has not heard
// yet does not matter any more; its messages may still be carried out. A raise to its
// fence would do what an extension does.
func (m *fenceModel) succeed(s *modelState, k int, c modelClient, fence uint8) modelStep {
	st := modelStep{kind: succeedStep, k: uint8(k), value: fence, to: *s}
	st.broken = fence <= c.floor
	for o := range m.acquirers {
		st.broken = st.broken || m.share(k, o) && s.clients[o].fence == fence
	}
	if m.repairs {
		c.raised &^= 1 << (fence - 1)
	}
	st.to.clients[k] = modelClient{fence: fence, raised: c.raised}
	for i := range m.nodes {
		st.to.nodes[i] = dropReplies(st.to.nodes[i], k)
	}
	return st
}

// A decisionKey is what a decision depends on: the replies by node, and the fence that
// the acquirer raises to.
type decisionKey struct {
	replies [modelNodes]uint16
	raising uint8
}

// A modelDecision has the fences with which the acquirer may succeed, and those to
// which it may raise.
type modelDecision struct{ succeed, raise uint64 }

// decision tries all choices of at most one reply per node. It is remembered: the
// same replies come back in many states.
func (m *fenceModel) decision(s *modelState, k int, raising int64) (d modelDecision) {
	key, heard := decisionKey{raising: uint8(raising)}, 0
	for i := range m.nodes {
		set := replies(s.nodes[i], k)
		key.replies[i] = uint16(set)
		heard += min(1, bits.OnesCount64(set))
	}
	if heard == 0 {
		return d
	}
	d, known := m.decisions[key]
	if !known {
		m.choose(&key, 0, &d)
		m.decisions[key] = d
	}
	return d
}

func (m *fenceModel) choose(key *decisionKey, i int, d *modelDecision) {
	if i == m.nodes {
		m.judge(m.fences, int64(key.raising), d)
		return
	}
	m.fences[i] = 0
	m.choose(key, i+1, d)
	for set := key.replies[i]; set != 0; set &= set - 1 {
		m.fences[i] = int64(bits.TrailingZeros16(set) + 1)
		m.choose(key, i+1, d)
	}
}

// judge is what the client does with these grants: see candidate.fence and candidate.raise. A
// fence that is raised to again is larger, since the node with the largest is kept.
func (m *fenceModel) judge(fences []int64, raising int64, d *modelDecision) {
	yes := 0
	for _, f := range fences {
		if f != 0 && m.counts(f, raising) {
			yes++
		}
	}
	fence, exact, granted := m.fenceOf(fences, m.quorum)
	switch {
	case raising != 0 && yes >= m.quorum:
		d.succeed |= 1 << (raising - 1)
	case exact >= m.quorum:
		d.succeed |= 1 << (fence - 1)
	case fence > raising && granted >= m.quorum:
		d.raise |= 1 << (fence - 1)
	}
}

// show describes what the nodes store.
func (m *fenceModel) show(s *modelState) string {
	var b strings.Builder
	for i := range m.nodes {
		n := unpackNode(s.nodes[i])
		fmt.Fprintf(&b, "  n%d", i)
		for r := range modelResources {
			holder := byte('-')
			if t := n.token[r]; t != 0 {
				holder = 'A' + t - 1
			}
			if r == 0 || n.counter[r] != 0 {
				fmt.Fprintf(&b, " %c%d", holder, n.counter[r])
			}
		}
	}
	return b.String()
}
