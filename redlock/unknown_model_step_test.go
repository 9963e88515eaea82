package redlock

import (
	"fmt"

	"github.com/seed6c881748/redlock/internal/node"
)

// unknownRules are what the model is searched under. The zero value of the last group
// is how the library works.
type unknownRules struct {
	ttl        uint8               // in ticks, 2 at most
	life       uint8               // of the tombstone; noEnd: nothing arrives after it
	ticks      uint8               // in all
	conns      [unknownNodes]uint8 // that A makes to each node, at most
	extensions uint8
	duplicates bool // messages are carried out in any order, any number of times
	other      bool // another process may release
	alone      bool // there is no B: whether A's keys are taken away shows without
	leftovers  bool // is the question; otherwise exclusion

	cleanUp          cleanUpRule
	noGeneration     bool // a tombstone or clean-up does not look for a newer one
	noTombstone      bool
	onlyIfOwed       bool // there is no tombstone where no release is owed
	releaseFirst     bool // a release does not wait for the tombstone
	releaseLost      bool // a release that was not answered is not owed
	releaseDropped   bool // nor is one while connecting
	repairUnsettled  bool // the outcome of a repair does not count as unknown
	repairMissing    bool // a repair goes only where the key was missing when last heard
	goOn             bool // A goes on though another process has released
	lockWithoutStone bool // the lock script does not look at the tombstone
}

// A cleanUpRule is what is deleted when a connection has broken.
type cleanUpRule uint8

const (
	deleteNothing cleanUpRule = iota // what is owed is sent as a release
	deleteFirst                      // the token of unknown outcome, before anything else
	deleteAnyTime                    // the same, beside other requests
)

type unknownStep struct {
	name   string
	broken string // the property that does not hold
	to     unknownState
}

// An unknownModel is the rules with space for a search.
type unknownModel struct {
	unknownRules

	names bool // of steps are wanted
	steps []unknownStep
}

// add appends a step.
func (m *unknownModel) add(to *unknownState, format string, args ...any) {
	st := unknownStep{to: *to, broken: m.broken(to)}
	if m.names {
		st.name = fmt.Sprintf(format, args...)
	}
	m.steps = append(m.steps, st)
}

// broken names the property that does not hold in a state.
func (m *unknownModel) broken(s *unknownState) string {
	if m.leftovers {
		for i := range s.nodes {
			n := &s.nodes[i]
			if s.a.phase == over && n.up && n.mark&node.MarkSent == 0 && !n.owed && n.token == tokenA {
				return fmt.Sprintf("node %d has a key that A believes to be gone", i)
			}
		}
		return ""
	}
	need := quorum(unknownNodes)
	keys := [3]int{}
	for i := range s.nodes {
		keys[s.nodes[i].token]++
	}
	switch {
	case s.a.holds() && s.b.holds():
		return "two holders"
	case m.goOn: // Its own fault, so far.
	case s.a.holds() && keys[tokenA] < need:
		return "A holds with less than a quorum"
	case s.b.holds() && keys[tokenB] < need:
		return "B holds with less than a quorum"
	}
	return ""
}

// next sets m.steps to the steps that may be next.
func (m *unknownModel) next(s *unknownState) {
	m.steps = m.steps[:0]
	if s.a.phase == idle {
		q := *s
		q.a.phase, q.a.round = locking, m.ttl
		for i := range q.nodes {
			q.nodes[i].mark |= node.MarkSent
			q.nodes[i].send(lockMessage)
		}
		m.add(&q, "A locks")
		return
	}
	if s.ticks < m.ticks {
		m.tick(s)
	}
	m.stepsOfA(s)
	m.stepsOfB(s)
	for i := range s.nodes {
		if s.nodes[i].gen+1 < m.conns[i] {
			m.breaks(s, i)
		}
		m.deliveries(s, i)
	}
}

func (m *unknownModel) tick(s *unknownState) {
	q := *s
	q.ticks++
	for i := range q.nodes {
		q.nodes[i].tick()
	}
	q.a.tick()
	q.b.tick()
	m.add(&q, "tick")
}

// tallyOf is the tally of A's round, or B's.
func (s *unknownState) tallyOf(b bool) (t tally) {
	for i := range s.nodes {
		n := &s.nodes[i]
		switch {
		case b && n.bYes, !b && n.yes:
			t.yes++
		case !b && n.gone:
			t.no++
		}
	}
	return t
}

func (m *unknownModel) stepsOfA(s *unknownState) {
	need := quorum(unknownNodes)
	switch {
	case s.a.phase == locking && s.a.round > 0 && decideLock(s.tallyOf(false), need, unknownNodes) == granted:
		q := *s
		q.a = unknownClient{phase: holding, until: s.a.round}
		for i := range q.nodes {
			q.nodes[i].yes = false
		}
		m.add(&q, "A holds")
	case s.a.phase == extending && s.a.holds() && decideExtend(s.tallyOf(false), need, unknownNodes) == granted:
		q := *s
		q.a = unknownClient{phase: holding, until: max(s.a.until, s.a.round)}
		for i := range q.nodes {
			n := &q.nodes[i]
			n.repairable = n.repairable || n.gone
			n.yes, n.gone = false, false
		}
		m.add(&q, "A has extended")
	case s.a.phase == holding && s.a.holds() && s.extensions < m.extensions:
		q := *s
		q.extensions++
		q.a.phase, q.a.round = extending, m.ttl
		for i := range q.nodes {
			n := &q.nodes[i]
			n.yes, n.gone = false, false
			if n.up {
				n.send(firstExtendMessage + int(s.extensions))
			}
		}
		m.add(&q, "A extends")
	}
	for i := range s.nodes {
		if n := &s.nodes[i]; s.a.holds() && n.repairable && n.up && (n.missing || !m.repairMissing) {
			q := *s
			q.nodes[i].repairable = false
			q.nodes[i].mark |= node.MarkSent
			q.nodes[i].send(repairMessage)
			m.add(&q, "A repairs node %d", i)
		}
	}
	if s.a.phase != over {
		m.giveUp(s)
	}
	if m.other && !s.handed && s.a.phase != over {
		q := *s
		q.handed = true
		if !m.goOn {
			q.a = unknownClient{phase: over}
		}
		for i := range q.nodes {
			q.nodes[i].send(otherMessage)
		}
		m.add(&q, "another process releases")
	}
}

// giveUp has A release what it may have left.
func (m *unknownModel) giveUp(s *unknownState) {
	q := *s
	q.a = unknownClient{phase: over}
	for i := range q.nodes {
		n := &q.nodes[i]
		n.yes, n.gone, n.missing, n.repairable = false, false, false, false
		n.mark |= node.MarkReleased
		switch {
		case n.mark&node.MarkSent == 0:
		case n.up || m.releaseFirst:
			n.send(releaseMessage)
		case m.releaseDropped:
			n.mark &^= node.MarkSent
		default:
			n.owed = true
		}
	}
	m.add(&q, "A gives up")
}

func (m *unknownModel) stepsOfB(s *unknownState) {
	q := *s
	switch {
	case s.b.phase == idle && !m.leftovers && !m.alone:
		q.b.phase, q.b.round = locking, m.ttl
		for i := range q.nodes {
			q.nodes[i].send(bLockMessage)
		}
		m.add(&q, "B locks")
	case s.b.phase == locking && s.b.round > 0 && decideLock(s.tallyOf(true), quorum(unknownNodes), unknownNodes) == granted:
		q.b = unknownClient{phase: holding, until: s.b.round}
		for i := range q.nodes {
			q.nodes[i].bYes = false
		}
		m.add(&q, "B holds")
	case s.b.phase == holding && s.b.holds():
		q.b = unknownClient{phase: over}
		for i := range q.nodes {
			q.nodes[i].send(bUnlockMessage)
		}
		m.add(&q, "B unlocks")
	}
}

// breaks has A's connection to node i break, or the next one before its handshake is
// over.
func (m *unknownModel) breaks(s *unknownState, i int) {
	q := *s
	n := &q.nodes[i]
	left := n.waiting & (1<<lockMessage | 1<<repairMessage)
	if m.repairUnsettled {
		left &^= 1 << repairMessage
	}
	n.unknown = n.unknown || left != 0
	if n.waiting&(1<<releaseMessage) != 0 {
		n.owed = !m.releaseLost
		if m.releaseLost {
			n.mark &^= node.MarkSent
		}
	}
	n.waiting = 0
	n.gen++
	n.up = true
	if n.unknown && !m.noTombstone && (!m.onlyIfOwed || n.owed) {
		n.up = m.cleanUp == deleteAnyTime
		n.send(tombstoneMessage)
	}
	if n.up && n.owed {
		n.owed = false
		n.send(releaseMessage)
	}
	m.add(&q, "A's connection %d to node %d breaks", n.gen-1, i)
}

// deliveries are what node i may carry out.
func (m *unknownModel) deliveries(s *unknownState, i int) {
	n := &s.nodes[i]
	for kind := range messageKinds {
		conns := uint8(maxConns)
		if kind >= bLockMessage {
			conns = 1
		}
		for gen := range conns {
			again := kind == tombstoneMessage && n.repeatable>>gen&1 != 0
			if again || n.onItsWay&messageBit(kind, gen) != 0 && (m.duplicates || m.isNext(n, kind, gen)) {
				m.deliver(s, i, kind, gen)
			}
		}
	}
}

// isNext reports whether nothing that was sent before it on the same connection is
// still on its way.
func (m *unknownModel) isNext(n *unknownNode, kind int, gen uint8) bool {
	if kind >= bLockMessage {
		return kind != bUnlockMessage || n.onItsWay&messageBit(bLockMessage, 0) == 0
	}
	if kind == repairMessage || kind == secondExtendMessage {
		kind = min(kind, secondExtendMessage) // One may be before the other, or behind it.
	}
	for k := range kind {
		if m.releaseFirst && kind == releaseMessage && k == tombstoneMessage {
			continue
		}
		if n.onItsWay&messageBit(k, gen) != 0 {
			return false
		}
	}
	return true
}

// deliver has node i carry out a message, whose answer is heard or not.
func (m *unknownModel) deliver(s *unknownState, i, kind int, gen uint8) {
	q := *s
	n := &q.nodes[i]
	if !m.duplicates {
		n.onItsWay &^= messageBit(kind, gen)
		if kind == tombstoneMessage {
			n.repeatable |= 1 << gen
		}
	}
	out := m.carryOut(&n.serverModel, kind, gen)
	if q != *s {
		m.add(&q, "node %d carries out %s of connection %d", i, messageNames[kind], gen)
	}
	if m.hear(&q, i, kind, gen, out) {
		m.add(&q, "node %d carries out %s of connection %d, and is heard: %v", i, messageNames[kind], gen, out.Stance)
	}
}

func (m *unknownModel) carryOut(n *serverModel, kind int, gen uint8) node.Outcome {
	switch kind {
	case tombstoneMessage:
		if m.noGeneration && n.stone > gen {
			n.stone, n.stoneLeft = 0, 0
		}
		out := n.tombstone(gen, m.life)
		if m.cleanUp != deleteNothing && out.Stance == node.Yes {
			n.release(tokenA)
		}
		return out
	case lockMessage:
		if m.lockWithoutStone {
			gen = noEnd
		}
		return n.lock(tokenA, m.ttl, gen)
	case firstExtendMessage, secondExtendMessage:
		return n.extend(tokenA, m.ttl)
	case repairMessage:
		return n.repair(tokenA, m.ttl, gen)
	case releaseMessage, otherMessage:
		return n.release(tokenA)
	case bLockMessage:
		return n.lock(tokenB, m.ttl, noEnd)
	}
	return n.release(tokenB)
}

// hear has the answer be heard, if it can be.
func (m *unknownModel) hear(s *unknownState, i, kind int, gen uint8, out node.Outcome) bool {
	n := &s.nodes[i]
	if kind == bLockMessage {
		n.bYes = n.bYes || s.b.phase == locking && out.Stance == node.Yes
		return true
	}
	earlier := n.waiting & (1<<min(kind, secondExtendMessage) - 1)
	if m.releaseFirst {
		earlier &^= 1 << tombstoneMessage
	}
	if kind > releaseMessage || gen != n.gen || n.waiting>>kind&1 == 0 || earlier != 0 {
		return false
	}
	n.waiting &^= 1 << kind
	switch kind {
	case tombstoneMessage:
		m.settle(n)
	case lockMessage:
		n.mark = n.mark.Heard(node.LockRequest, out)
		m.vote(n, s.a.phase == locking, out)
	case firstExtendMessage, secondExtendMessage:
		n.mark = n.mark.Heard(node.Ask, out)
		n.missing = m.repairMissing && s.a.phase != over && out.Stance == node.Gone
		m.vote(n, s.a.phase == extending && kind-firstExtendMessage == int(s.extensions)-1, out)
	case repairMessage:
		n.mark = n.mark.Heard(node.RepairRequest, out)
		n.missing = n.missing && out.Stance != node.Yes
	case releaseMessage:
		n.mark = n.mark.Heard(node.Release, out)
	}
	return true
}

func (m *unknownModel) vote(n *unknownNode, counts bool, out node.Outcome) {
	if counts && !n.yes && !n.gone {
		n.yes, n.gone = out.Stance == node.Yes, out.Stance == node.Gone
	}
}

// settle is the end of a handshake.
func (m *unknownModel) settle(n *unknownNode) {
	n.up, n.unknown = true, false
	if m.cleanUp != deleteNothing {
		n.mark &^= node.MarkSent
		n.owed = false
	}
	if n.owed {
		n.owed = false
		n.send(releaseMessage)
	}
}
