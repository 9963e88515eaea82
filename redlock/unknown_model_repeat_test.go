package redlock

import "github.com/seed6c881748/redlock/internal/node"

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

// hearRelease has the answer to a release, or to the look before it, be heard.
func (m *unknownModel) hearRelease(n *unknownNode) {
	look, says := n.waitsFor(1<<lookMessage), n.answer
	n.waiting, n.answer = n.waiting&^repetition, node.Silent
	if look && says == node.Yes {
		n.send(releaseMessage)
		return
	}
	n.mark = n.mark.Heard(node.Release, node.Outcome{Stance: says})
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
