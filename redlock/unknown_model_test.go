package redlock

import "github.com/seed6c881748/redlock/internal/node"

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

// release is undoScript and unlockScript.
func (n *serverModel) release(token uint8) node.Stance {
	if n.token != token {
		return node.No
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
