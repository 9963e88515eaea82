package redlock

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/lease"
)

// A model of fencing, small enough to look at every state that it can get into. The
// client's decisions are the production functions; the scripts are mirrored by the
// functions of a modelNode, which TestFenceModelNodeIsTheScripts compares with them.
//
// There are some nodes and some acquirers, each of which makes one attempt with one
// token. What may happen at any time, in any order:
//
//	lock     a node carries out an acquirer's lock request, and grants it once or, as
//	         there are duplicates, twice; repeats the answer any number of times. A
//	         refusal is no step: to the fence it is like a loss.
//	raise    a node carries out a raise to any fence that the acquirer has ever chosen,
//	         any number of times. More nodes than in production may be asked to.
//	expiry   a lock's key goes away. Usually this is not a step of its own: a key may
//	         be gone when it stands in somebody's way. An empty key matters to nobody
//	         else, as its holder's messages may also be late or lost.
//	decide   an acquirer hears some of the replies that there are, one per node, and
//	         does what production does with them: succeeds, or chooses a fence to raise
//	         to. Replies that it does not hear are late, or lost, or never heard.
//	repair   a node carries out a repair with the fence of a lock that was got; where
//	         the key is there, this is also an extension.
//
// An acquirer starts with the first of its requests that is carried out: had it
// started earlier, less would be required of its fence. Releases are expiry.

const (
	modelNodes     = 5 // at most
	modelAcquirers = 3
	modelResources = 2
	modelCounter   = 15
)

// A modelNode is what a node stores, by resource: whose token the lock's key holds, and
// the counter. 0 is no key.
type modelNode struct {
	token   [modelResources]uint8
	counter [modelResources]int64
}

// look returns in how many of the resources the node holds the token, in how many
// another one, and the largest and the smallest of the counters.
func (n *modelNode) look(token uint8, wants []int) (mine, others int, top, low int64) {
	low = fences.Max
	for _, r := range wants {
		switch n.token[r] {
		case token:
			mine++
		case 0:
		default:
			others++
		}
		top, low = max(top, n.counter[r]), min(low, n.counter[r])
	}
	return mine, others, top, low
}

// set has the node hold the token, with these counters.
func (n *modelNode) set(token uint8, wants []int, counter int64) {
	for _, r := range wants {
		n.token[r], n.counter[r] = token, counter
	}
}

// expire has the keys that hold another token go away, or all of them.
func (n *modelNode) expire(token uint8, wants []int, all bool) {
	for _, r := range wants {
		if all || n.token[r] != token {
			n.token[r] = 0
		}
	}
}

// lock is fencedLockScript, for a proposal that the node's clock does not forbid. 0 is
// a refusal or an error.
func (n *modelNode) lock(token uint8, wants []int, proposal int64) int64 {
	mine, others, top, low := n.look(token, wants)
	switch {
	case others > 0:
		return 0
	case mine == len(wants) && (low < top || top < 1):
		return 0
	case mine == len(wants):
		return top
	}
	fence := max(top+1, proposal)
	n.set(token, wants, fence)
	return fence
}

// raise is raiseScript.
func (n *modelNode) raise(token uint8, wants []int, fence int64) int64 {
	if mine, _, top, _ := n.look(token, wants); mine < len(wants) || top > fence {
		return 0
	}
	n.set(token, wants, fence)
	return fence
}

// repair is repairScript with a fence.
func (n *modelNode) repair(token uint8, wants []int, fence int64) int64 {
	if _, others, _, _ := n.look(token, wants); others > 0 {
		return -1
	}
	n.keep(token, wants, fence)
	return 1
}

// extend is extendScript with a fence.
func (n *modelNode) extend(token uint8, wants []int, fence int64) int64 {
	mine, others, _, _ := n.look(token, wants)
	switch {
	case others > 0:
		return 0
	case mine < len(wants):
		return -1
	}
	n.keep(token, wants, fence)
	return 1
}

func (n *modelNode) keep(token uint8, wants []int, fence int64) {
	for _, r := range wants {
		n.token[r], n.counter[r] = token, max(n.counter[r], fence)
	}
}

// An acquirer is one attempt.
type modelAcquirer struct {
	token    uint8 // its number from 1, unless the rules are wrong
	wants    []int // resources
	proposal int64
}

// modelRules are what a model is searched under. The zero value of a function is the
// production's.
type modelRules struct {
	nodes, quorum int // quorum 0: the production's
	acquirers     []modelAcquirer
	duplicates    int  // how often in all a node grants a request that it has granted once
	raises        int  // to how many fences an acquirer may raise
	repairs       bool // and extensions
	expiry        bool // is a step of its own
	losses        int  // how often a node may lose what it stores

	fenceOf func(fences []int64, need int) (fence int64, exact, granted int)
	counts  func(counter, fence int64) bool
	lock    func(n *modelNode, token uint8, wants []int, proposal int64) int64
	raise   func(n *modelNode, token uint8, wants []int, fence int64) int64
}

func (m modelRules) withDefaults() modelRules {
	if m.quorum == 0 {
		m.quorum = quorum(m.nodes)
	}
	if m.fenceOf == nil {
		m.fenceOf = lease.Agreed
	}
	if m.counts == nil {
		m.counts = lease.Counts
	}
	if m.lock == nil {
		m.lock = (*modelNode).lock
	}
	if m.raise == nil {
		m.raise = (*modelNode).raise
	}
	return m
}

// A modelState is a state of the whole model, without pointers, to be stored by the
// million. A node's word has all that is known of it:
//
//	by resource  2 bits token, 4 bits counter
//	by acquirer  2 bits how often the lock request was granted
//	             15 bits the counters that a reply to the acquirer tells of, as a set
type modelState struct {
	nodes   [modelNodes]uint64
	clients [modelAcquirers]modelClient
	losses  uint32
}

// A modelClient is what an acquirer knows, besides the replies.
type modelClient struct {
	fence  uint8  // 0 before it succeeds
	floor  uint8  // the largest fence of those that had succeeded when it started
	raised uint16 // the fences that it has chosen to raise to, as a set
}

const (
	resourceBits = 6
	acquirerAt   = modelResources * resourceBits
	acquirerBits = 2 + modelCounter
	setMask      = 1<<modelCounter - 1
)

func unpackNode(w uint64) (n modelNode) {
	for r := range modelResources {
		n.token[r], n.counter[r] = uint8(w&3), int64(w>>2&15)
		w >>= resourceBits
	}
	return n
}

// packNode returns the word w with n in it.
func packNode(w uint64, n *modelNode) uint64 {
	w = w >> acquirerAt << acquirerAt
	for r := range modelResources {
		if n.counter[r] > modelCounter {
			panic(fmt.Sprintf("no room for a counter of %d: search fewer duplicates", n.counter[r]))
		}
		w |= (uint64(n.token[r]) | uint64(n.counter[r])<<2) << (r * resourceBits)
	}
	return w
}

func timesGranted(w uint64, k int) int { return int(w >> (acquirerAt + k*acquirerBits) & 3) }

func addGrant(w uint64, k int) uint64 { return w + 1<<(acquirerAt+k*acquirerBits) }

func replies(w uint64, k int) uint64 { return w >> (acquirerAt + k*acquirerBits + 2) & setMask }

func addReply(w uint64, k int, counter int64) uint64 {
	if counter <= 0 {
		return w
	}
	return w | 1<<(acquirerAt+k*acquirerBits+2+int(counter)-1)
}

func dropReplies(w uint64, k int) uint64 {
	return w &^ (setMask << (acquirerAt + k*acquirerBits + 2))
}

// raising is the fence that the client has chosen to raise to; 0: none.
func (c modelClient) raising() int64 { return int64(bits.Len16(c.raised)) }

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

// judge is what the client does with these grants: see decideFence and raise of package lease. A
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
	_, _, granted = lease.Agreed(counters, need)
	fence = slices.Max(counters)
	return fence, granted, granted
}

func smallest(counters []int64, need int) (fence int64, exact, granted int) {
	for _, f := range counters {
		if f != 0 && (fence == 0 || f < fence) {
			fence = f
		}
	}
	_, _, granted = lease.Agreed(counters, need)
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
