package redlock

import (
	"fmt"

	"github.com/seed6c881748/redlock/internal/node"
)

// A model of unknown outcomes, small enough to look at every state that it can get into.
// It asks two questions of a client A, whose connections break, beside another client B:
//
//	exclusion  Do A and B ever hold the lock at the same time? More than that: does a
//	           lock that is held ever have less than a quorum of keys?
//	leftovers  When A has given up its claim, and believes that nothing is left of it on
//	           a node, may its key be there, or come back?
//
// The verdicts on rounds, and what A believes after an answer, are the production
// functions; the scripts are mirrored by the functions of a serverModel, which
// TestUnknownModelNodeIsTheScripts compares with them. What may happen at any time, in
// any order:
//
//	tick       time goes on: keys expire, rounds and locks end
//	A          locks once; extends what it holds, and repairs nodes on which an extension
//	           has found the key missing, also on old news; gives up or unlocks
//	break      a connection of A to a node breaks, also because the node restarts with
//	           its data. What was sent on it is still on its way. The next one comes later,
//	           and the release goes out on it, if A has given up
//	repeat     a release was answered, and the outcome of an earlier request is unknown: A
//	           asks the node whether it has the key now, and releases it if so. The node may
//	           refuse both
//	minute     nothing of earlier connections comes any more, so long ago was the first answer
//	           to the release. Once it has been repeated after that, A forgets the token
//	deliver    a node carries out a message that was sent at any time before. Its answer is
//	           heard at once, or never; to a repetition also later. (To others that is no
//	           more: A decides later.) Answers come in the order of the connection. So do
//	           messages, and once; with duplicates in any order, any number of times
//	other      another process that knows A's token releases it, on its own connections, which
//	           are A's next ones here. A does nothing any more, but what it has sent is still
//	           on its way
//	B          locks once, and unlocks
//
// Messages that are never delivered are lost.

const unknownNodes = 3

// Messages. Those of A are sent on one of its connections to the node, those of B on a
// connection of its own.
const (
	cleanUpMessage = iota // of earlier versions
	lockMessage
	firstExtendMessage
	secondExtendMessage
	repairMessage
	releaseMessage // also when it is repeated: only when the look was answered
	lookMessage    // only when the release was answered
	bLockMessage
	bUnlockMessage
	messageKinds
)

var messageNames = [messageKinds]string{
	"clean-up", "lock", "extension 1", "extension 2", "repair", "release", "look", "B's lock", "B's unlock",
}

var stanceNames = [...]string{node.Yes: "yes", node.No: "no", node.Gone: "gone"}

const (
	nobody = iota
	tokenA
	tokenB
)

// A serverModel is what a node stores: whose token the key holds, and the ticks that it
// has to live.
type serverModel struct{ token, left uint8 }

func (n *serverModel) tick() {
	if n.left = max(n.left, 1) - 1; n.left == 0 {
		n.token = nobody
	}
}

// lock is lockScript, and the server's own command.
func (n *serverModel) lock(token, ttl uint8) node.Stance {
	switch n.token {
	case nobody:
		n.token, n.left = token, ttl
		return node.Yes
	case token:
		return node.Yes
	}
	return node.No
}

// extend is extendScript.
func (n *serverModel) extend(token, ttl uint8) node.Stance {
	switch n.token {
	case token:
		n.left = max(n.left, ttl)
		return node.Yes
	case nobody:
		return node.Gone
	}
	return node.No
}

// repair is repairScript.
func (n *serverModel) repair(token, ttl uint8) node.Stance {
	if n.token != nobody && n.token != token {
		return node.No
	}
	n.token, n.left = token, max(n.left, ttl)
	return node.Yes
}

// release is unlockScript.
func (n *serverModel) release(token uint8) node.Stance {
	if n.token != token {
		return node.Gone
	}
	n.token, n.left = nobody, 0
	return node.Yes
}

// An unknownNode is a node in a state of the model: the server, what A and B know of
// it, and what is on its way.
type unknownNode struct {
	serverModel

	gen        uint8       // of A's latest connection
	down       bool        // it is not there yet
	mark       node.Mark   // what A believes to have left
	unknown    bool        // the outcome of a request that sets the key is
	owed       bool        // the release, on the next connection
	repeating  bool        // the release was answered, and is repeated
	minute     bool        // nothing of earlier connections comes any more
	last       bool        // the repetition under way was sent after that
	waiting    uint16      // for answers to these messages of the latest connection, as a set
	answer     node.Stance // to a repetition, on its way
	yes, gone  bool        // in A's round
	repairable bool        // an extension that succeeded has found the key missing
	bYes       bool
	onItsWay   uint32 // messages, by kind and connection
}

const maxConns = 3

func messageBit(kind int, gen uint8) uint32 { return 1 << (kind*maxConns + int(gen)) }

func (n *unknownNode) send(kind int) {
	if kind >= bLockMessage {
		n.onItsWay |= messageBit(kind, 0)
		return
	}
	n.onItsWay |= messageBit(kind, n.gen)
	n.waiting |= 1 << kind
	if kind == lockMessage || kind == repairMessage {
		n.mark |= node.MarkSent
	}
}

func (n *unknownNode) waitsFor(kinds uint16) bool { return n.waiting&kinds != 0 }

// mayBeOn reports whether the client reckons with the key being there, or coming.
func (n *unknownNode) mayBeOn() bool { return n.mark&node.MarkSent != 0 || n.unknown }

// word has all of it.
func (n *unknownNode) word() uint64 {
	w := uint64(n.onItsWay) | uint64(n.mark&node.MarkSent)<<27 | uint64(n.waiting)<<28
	w |= uint64(n.token)<<36 | uint64(n.left)<<38 | uint64(n.gen)<<40 | uint64(n.answer)<<42
	flags := [...]bool{n.down, n.unknown, n.owed, n.repeating, n.minute, n.last, n.yes, n.gone, n.repairable, n.bYes}
	for i, b := range flags {
		if b {
			w |= 1 << (45 + i)
		}
	}
	return w
}

// A phase is where a client is in its life.
type phase uint8

const (
	idle phase = iota
	locking
	holding
	extending
	over // given up or released, or taken over by the other process
)

type unknownClient struct {
	phase phase
	round uint8 // ticks that are left of what its round asks for
	until uint8 // ticks that are left of the lock's validity
}

func (c *unknownClient) holds() bool {
	return (c.phase == holding || c.phase == extending) && c.until > 0
}

func (c *unknownClient) tick() {
	c.until = max(c.until, 1) - 1
	if c.round = max(c.round, 1) - 1; c.round == 0 && c.phase == extending {
		c.phase = holding
	}
}

// An unknownState is a state of the model.
type unknownState struct {
	nodes [unknownNodes]unknownNode
	a, b  unknownClient

	extensions, ticks uint8 // so far
}

func (s *unknownState) hash(words [unknownNodes]uint64) [2]uint64 {
	w := uint64(s.extensions) | uint64(s.ticks)<<8
	for i, c := range [...]unknownClient{s.a, s.b} {
		w |= (uint64(c.phase) | uint64(c.round)<<3 | uint64(c.until)<<5) << (16 + 8*i)
	}
	h := newStateHash(w)
	for _, w := range words {
		h.mix(w)
	}
	return h.sum()
}

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
	n.mark = n.mark.After(requestKinds[kind], said(says), false)
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

// This file is what the model has of internal/node: connections that break, releases that are
// owed, and releases that are repeated.

// connection has A's connection to node i break, or the next one come.
func (m *unknownModel) connection(s *unknownState, i int) {
	q := *s
	n := &q.nodes[i]
	switch {
	case n.down && n.waiting == 0:
		n.gen++
		n.down = n.unknown && m.cleanUp
		if n.unknown && (m.cleanUp || m.beside) {
			n.send(cleanUpMessage)
		}
		if n.owed {
			m.release(n)
		}
		n.repeating = n.repeating || m.repeatHeld && n.unknown && !n.waitsFor(repetition)
		m.add(&q, "A connects to node %d again", i)
	case n.gen+1 < m.conns[i]:
		m.breaks(n)
		m.add(&q, "A's connection %d to node %d breaks", n.gen, i)
	}
}

// breaks is the end of a connection.
func (m *unknownModel) breaks(n *unknownNode) {
	if n.waitsFor(1<<lockMessage) || n.waitsFor(1<<repairMessage) && !m.repairKnown {
		n.unknown = true
	}
	switch {
	case !n.waitsFor(repetition):
	case n.repeating && m.lostCounts:
		n.answered()
	case n.repeating: // It is sent again.
	case m.releaseLost:
		n.forget()
	default:
		n.owed = true
	}
	n.waiting, n.answer, n.down, n.last = 0, node.Silent, true, false
}

// A repetition are these messages, one after the other. Their answers may be on their way for
// long.
const repetition = 1<<lookMessage | 1<<releaseMessage

// repetition has the release of A's token be repeated on node i.
func (m *unknownModel) repetition(s *unknownState, i int) {
	q := *s
	n := &q.nodes[i]
	switch {
	case n.answer != node.Silent:
		m.hearRelease(n)
		m.add(&q, "A hears that from node %d", i)
	case n.repeating && !n.down && !n.waitsFor(repetition):
		n.last = n.minute || m.stop
		n.send(lookMessage)
		m.add(&q, "A repeats its release on node %d", i)
	}
	if q = *s; n.repeating && n.waitsFor(repetition) && n.answer == node.Silent {
		if m.refusedCounts {
			n.answered()
		}
		n.waiting, n.last = n.waiting&^repetition, false
		n.onItsWay &^= messageBit(lookMessage, n.gen) | messageBit(releaseMessage, n.gen)
		m.add(&q, "node %d refuses that", i)
	}
	if q = *s; m.leftovers && n.repeating && !n.minute {
		n.minute = true
		for kind := range bLockMessage {
			for gen := range n.gen {
				n.onItsWay &^= messageBit(kind, gen)
			}
		}
		m.add(&q, "a minute is over on node %d", i)
	}
}

func said(s node.Stance) node.Happening {
	if s == node.Yes {
		return node.SaidYes
	}
	return node.SaidNo
}

// hearRelease has the answer to a release, or to the look before it, be heard.
func (m *unknownModel) hearRelease(n *unknownNode) {
	look, says := n.waitsFor(1<<lookMessage), n.answer
	n.waiting, n.answer = n.waiting&^repetition, node.Silent
	if look && says == node.Yes {
		n.send(releaseMessage)
		return
	}
	n.mark = n.mark.After(node.Release, said(says), false)
	n.last = n.last || n.minute && m.anyAnswer
	switch {
	case m.releaseClears, m.onlyNotFound && says == node.Yes:
		n.forget()
	case n.repeating:
		n.answered()
	default:
		n.repeating = n.unknown
	}
}

// answered has A go on when a repetition was answered.
func (n *unknownNode) answered() {
	if n.last {
		n.forget()
	}
	n.last = false
}

// release has a client release its token that is over.
func (m *unknownModel) release(n *unknownNode) {
	if n.owed = n.down && !m.duplicates; !n.owed {
		n.send(releaseMessage)
	}
	if m.duplicates { // With this one, all that it may send from now on is on its way.
		*n = n.without(maxConns)
	}
}

// without is a node of which the client knows nothing.
func (n *unknownNode) without(gen uint8) unknownNode {
	return unknownNode{serverModel: n.serverModel, onItsWay: n.onItsWay, bYes: n.bYes, gen: gen}
}

// forget has the client take the token for gone.
func (n *unknownNode) forget() {
	n.mark, n.unknown, n.owed, n.repeating = 0, false, false, false
}
