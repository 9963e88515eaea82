package redlock

import (
	"fmt"

	"github.com/seed6c881748/redlock/internal/node"
)

// unknownRules are what the model is searched under. The zero value of the last group
// is how the library works.
type unknownRules struct {
	ttl        uint8               // in ticks, 2 at most
	ticks      uint8               // in all
	conns      [unknownNodes]uint8 // to each node, at most, the other process's included
	extensions uint8
	duplicates bool // messages are carried out in any order, any number of times
	other      bool // another process may release
	alone      bool // there is no B: whether A's keys are taken away shows without
	leftovers  bool // is the question; otherwise exclusion

	cleanUp        bool // a new connection deletes the key of unknown outcome, before anything else
	beside         bool // or beside other requests
	goOn           bool // A goes on though another process has released
	repeatHeld     bool // the release of a token that is not dead is repeated
	stop           bool // repetitions stop after the first answer
	anyAnswer      bool // the last one is that whose answer comes late enough, whenever it was sent
	lostCounts     bool // a repetition that was not answered counts
	refusedCounts  bool // so does one that the node has refused
	onlyNotFound   bool // releases are repeated only where they found no key
	repairKnown    bool // the outcome of a repair does not count as unknown
	yesClears      bool // a later yes is taken for the outcome
	noClears       bool // so is a no
	releaseClears  bool // so is the answer to a release
	otherOnce      bool // the other process does not repeat its release
	releaseLost    bool // a release that was not answered is not owed
	releaseDropped bool // nor is one while connecting
}

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

// addAll appends a step that changes all nodes.
func (m *unknownModel) addAll(q unknownState, name string, change func(n *unknownNode)) {
	for i := range q.nodes {
		change(&q.nodes[i])
	}
	m.add(&q, "%s", name)
}

// broken names the property that does not hold in a state.
func (m *unknownModel) broken(s *unknownState) string {
	need := quorum(unknownNodes)
	keys := [3]int{}
	for i, n := range s.nodes {
		if m.leftovers && s.a.phase == over && !n.mayBeOn() && n.token == tokenA {
			return fmt.Sprintf("node %d has a key that A believes to be gone", i)
		}
		keys[n.token]++
	}
	switch {
	case m.leftovers:
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
		m.addAll(q, "A locks", func(n *unknownNode) { n.send(lockMessage) })
		return
	}
	if s.ticks < m.ticks {
		q := *s
		q.ticks++
		q.a.tick()
		q.b.tick()
		m.addAll(q, "tick", func(n *unknownNode) { n.tick() })
	}
	m.stepsOfA(s)
	m.stepsOfB(s)
	for i := range s.nodes {
		m.connection(s, i)
		m.repetition(s, i)
		for bit := range messageKinds * maxConns {
			m.deliver(s, i, bit/maxConns, uint8(bit%maxConns))
		}
	}
}

// tallyOf is the tally of A's round, or B's.
func (s *unknownState) tallyOf(b bool) (t tally) {
	for _, n := range s.nodes {
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
	q := *s
	switch {
	case s.a.phase == locking && s.a.round > 0 && decideLock(s.tallyOf(false), need, unknownNodes) == granted:
		q.a = unknownClient{phase: holding, until: s.a.round}
		m.addAll(q, "A holds", func(n *unknownNode) { n.yes = false })
	case s.a.phase == extending && s.a.holds() && decideExtend(s.tallyOf(false), need, unknownNodes) == granted:
		q.a = unknownClient{phase: holding, until: max(s.a.until, s.a.round)}
		m.addAll(q, "A has extended", func(n *unknownNode) {
			n.repairable = n.repairable || n.gone
			n.yes, n.gone = false, false
		})
	case s.a.phase == holding && s.a.holds() && s.extensions < m.extensions:
		q.extensions++
		q.a.phase, q.a.round = extending, m.ttl
		m.addAll(q, "A extends", func(n *unknownNode) {
			n.yes, n.gone = false, false
			if !n.down {
				n.send(firstExtendMessage + int(s.extensions))
			}
		})
	}
	for i := range s.nodes {
		if n := &s.nodes[i]; s.a.holds() && n.repairable && !n.down {
			q = *s
			q.nodes[i].repairable = false
			q.nodes[i].send(repairMessage)
			m.add(&q, "A repairs node %d", i)
		}
	}
	if s.a.phase != over {
		m.giveUp(s)
		if m.other {
			m.handOver(s)
		}
	}
}

// giveUp has A release what it may have left.
func (m *unknownModel) giveUp(s *unknownState) {
	q := *s
	q.a = unknownClient{phase: over}
	m.addAll(q, "A gives up", func(n *unknownNode) {
		n.yes, n.gone, n.repairable = false, false, false
		switch {
		case !n.mayBeOn():
		case n.down && m.releaseDropped:
			n.forget()
		default:
			m.release(n)
		}
	})
}

// handOver has another process release, which cannot know what may come late. It does not
// reach the nodes that have no connection left.
func (m *unknownModel) handOver(s *unknownState) {
	q := *s
	if !m.goOn {
		q.a = unknownClient{phase: over}
	}
	for i := range q.nodes {
		switch n := &q.nodes[i]; {
		case m.duplicates: // Whose connection it is does not matter.
			m.release(n)
		case n.gen+1 < m.conns[i]:
			*n = n.without(n.gen + 1)
			n.mark, n.unknown = node.MarkSent, !m.otherOnce
			m.release(n)
		}
	}
	m.add(&q, "another process releases")
}

func (m *unknownModel) stepsOfB(s *unknownState) {
	q := *s
	switch {
	case s.b.phase == idle && !m.alone:
		q.b.phase, q.b.round = locking, m.ttl
		m.addAll(q, "B locks", func(n *unknownNode) { n.send(bLockMessage) })
	case s.b.phase == locking && s.b.round > 0 && decideLock(s.tallyOf(true), quorum(unknownNodes), unknownNodes) == granted:
		q.b = unknownClient{phase: holding, until: s.b.round}
		m.addAll(q, "B holds", func(n *unknownNode) { n.bYes = false })
	case s.b.phase == holding && s.b.holds():
		q.b = unknownClient{phase: over}
		m.addAll(q, "B unlocks", func(n *unknownNode) { n.send(bUnlockMessage) })
	}
}

// ahead are the kinds of messages that come before this one on the same connection. A repair
// may be before the second extension, or behind it.
func (m *unknownModel) ahead(kind int) (kinds uint16) {
	first := cleanUpMessage
	switch {
	case kind >= bLockMessage:
		first = bLockMessage
	case m.beside:
		first = lockMessage
	}
	if kind == repairMessage {
		kind = secondExtendMessage
	}
	return 1<<max(kind, first) - 1<<first
}

// mayCome reports whether the message is on its way, and nothing that was sent before it on the
// same connection is.
func (m *unknownModel) mayCome(n *unknownNode, kind int, gen uint8) bool {
	for k := range kind {
		if !m.duplicates && m.ahead(kind)>>k&1 != 0 && n.onItsWay&messageBit(k, gen) != 0 {
			return false
		}
	}
	return n.onItsWay&messageBit(kind, gen) != 0
}

// deliver has node i carry out a message that may come. The answer is heard or not.
func (m *unknownModel) deliver(s *unknownState, i, kind int, gen uint8) {
	if !m.mayCome(&s.nodes[i], kind, gen) {
		return
	}
	q := *s
	n := &q.nodes[i]
	if !m.duplicates {
		n.onItsWay &^= messageBit(kind, gen)
	}
	says := m.carryOut(&n.serverModel, kind)
	if q != *s {
		m.add(&q, "node %d carries out %s of connection %d", i, messageNames[kind], gen)
	}
	if m.hear(&q, i, kind, gen, says) {
		m.add(&q, "node %d carries out %s of connection %d, and answers %s", i, messageNames[kind], gen, stanceNames[says])
	}
}

func (m *unknownModel) carryOut(n *serverModel, kind int) node.Stance {
	switch kind {
	case lockMessage:
		return n.lock(tokenA, m.ttl)
	case firstExtendMessage, secondExtendMessage:
		return n.extend(tokenA, m.ttl)
	case repairMessage:
		return n.repair(tokenA, m.ttl)
	case cleanUpMessage, releaseMessage:
		return n.release(tokenA)
	case lookMessage:
		after := *n
		return after.release(tokenA)
	case bLockMessage:
		return n.lock(tokenB, m.ttl)
	}
	return n.release(tokenB)
}

// hear has the answer be heard, if it can be.
func (m *unknownModel) hear(s *unknownState, i, kind int, gen uint8, says node.Stance) bool {
	n := &s.nodes[i]
	if kind >= bLockMessage {
		n.bYes = n.bYes || kind == bLockMessage && s.b.phase == locking && says == node.Yes
		return kind == bLockMessage
	}
	if gen != n.gen || !n.waitsFor(1<<kind) || n.waitsFor(m.ahead(kind)) || n.answer != node.Silent {
		return false
	}
	if repetition>>kind&1 != 0 {
		n.answer = says
		return true
	}
	n.waiting &^= 1 << kind
	if kind == cleanUpMessage {
		n.down = false
		n.forget()
		return true
	}
	n.mark = n.mark.Heard(requestKinds[kind], node.Outcome{Stance: says})
	votes := s.a.phase == locking && kind == lockMessage || s.a.phase == extending && kind == firstExtendMessage+int(s.extensions)-1
	if votes && !n.yes && !n.gone {
		n.yes, n.gone = says == node.Yes, says == node.Gone
	}
	if says == node.Yes && m.yesClears || says != node.Yes && m.noClears {
		n.unknown = false
	}
	return true
}

// requestKinds are the library's. Extensions are the first, node.Ask.
var requestKinds = [messageKinds]node.Kind{lockMessage: node.LockRequest, repairMessage: node.RepairRequest}
