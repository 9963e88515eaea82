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
//	tick       time goes on: keys and tombstones expire, rounds and locks end
//	A          locks once; extends what it holds, and repairs nodes on which an extension
//	           has found the key missing, also on old news; gives up or unlocks
//	break      a connection of A to a node breaks, also because the node restarts with
//	           its data. What was sent on it is still on its way. The next one begins
//	           with a tombstone if the outcome of a request is unknown; then the release
//	           goes out, if A has given up
//	deliver    a node carries out a message that was sent at any time before. Its answer is
//	           heard at once, or never. (Heard later is no more than that: A decides
//	           later.) Answers come in the order of the connection. So do messages, and once;
//	           with duplicates in any order, any number of times
//	other      another process that knows A's token releases it. A does nothing any more,
//	           but what it has sent is still on its way
//	B          locks once, and unlocks
//
// Messages that are never delivered are lost.

const unknownNodes = 3

// Messages. Those of A up to the release are sent on one of its connections to the
// node; the others on connections of their own.
const (
	tombstoneMessage = iota
	lockMessage
	firstExtendMessage
	secondExtendMessage
	repairMessage
	releaseMessage
	bLockMessage
	bUnlockMessage
	otherMessage
	messageKinds
)

var messageNames = [messageKinds]string{
	"tombstone", "lock", "extension 1", "extension 2", "repair", "release", "B's lock", "B's unlock", "the other's release",
}

const (
	nobody = iota
	tokenA
	tokenB
)

// A serverModel is what a node stores: whose token the key holds, and A's tombstone,
// each with the ticks that it has to live. A life of noEnd does not end.
type serverModel struct {
	token, left      uint8
	stone, stoneLeft uint8
}

const noEnd = 3

func (n *serverModel) tick() {
	if n.left > 0 {
		if n.left--; n.left == 0 {
			n.token = nobody
		}
	}
	if n.stoneLeft > 0 && n.stoneLeft < noEnd {
		if n.stoneLeft--; n.stoneLeft == 0 {
			n.stone = 0
		}
	}
}

// lock is lockScript: yes, no, or stale. B has no tombstone, and generation noEnd.
func (n *serverModel) lock(token, ttl, gen uint8) node.Outcome {
	switch {
	case n.stone > gen:
		return node.Outcome{Stale: true}
	case n.token == token:
		return node.Outcome{Stance: node.Yes}
	case n.token != nobody:
		return node.Outcome{Stance: node.No}
	}
	n.token, n.left = token, ttl
	return node.Outcome{Stance: node.Yes}
}

// extend is extendScript.
func (n *serverModel) extend(token, ttl uint8) node.Outcome {
	switch n.token {
	case token:
		n.left = max(n.left, ttl)
		return node.Outcome{Stance: node.Yes}
	case nobody:
		return node.Outcome{Stance: node.Gone}
	}
	return node.Outcome{Stance: node.No}
}

// repair is repairScript.
func (n *serverModel) repair(token, ttl, gen uint8) node.Outcome {
	switch {
	case n.stone > gen:
		return node.Outcome{Stale: true}
	case n.token != nobody && n.token != token:
		return node.Outcome{Stance: node.No}
	}
	n.token, n.left = token, max(n.left, ttl)
	return node.Outcome{Stance: node.Yes}
}

// release is undoScript.
func (n *serverModel) release(token uint8) node.Outcome {
	if n.token != token {
		return node.Outcome{Stance: node.No}
	}
	n.token, n.left = nobody, 0
	return node.Outcome{Stance: node.Yes}
}

// tombstone is node.Tombstone.
func (n *serverModel) tombstone(gen, life uint8) node.Outcome {
	if n.stone > gen {
		return node.Outcome{Stale: true}
	}
	n.stone, n.stoneLeft = gen, max(n.stoneLeft, life)
	return node.Outcome{Stance: node.Yes}
}

// An unknownNode is a node in a state of the model: the server, what A and B know of
// it, and what is on its way.
type unknownNode struct {
	serverModel

	gen        uint8     // of A's latest connection
	up         bool      // its handshake is over
	unknown    bool      // the outcome of a request on an earlier one is
	owed       bool      // the release, on the next connection
	mark       node.Mark // what A believes to have left
	waiting    uint8     // for answers to these messages of the latest connection, as a set
	yes        bool      // in A's round
	gone       bool
	missing    bool // the last extension or repair that was answered found the key missing
	repairable bool // an extension that succeeded did
	bYes       bool
	onItsWay   uint32 // messages, by kind and connection
	repeatable uint8  // tombstones that were carried out, by connection
}

const maxConns = 3

func messageBit(kind int, gen uint8) uint32 {
	if kind >= bLockMessage {
		return 1 << (releaseMessage*maxConns + maxConns + kind - bLockMessage)
	}
	return 1 << (kind*maxConns + int(gen))
}

func (n *unknownNode) send(kind int) {
	n.onItsWay |= messageBit(kind, n.gen)
	if kind <= releaseMessage {
		n.waiting |= 1 << kind
	}
}

// word has all of it.
func (n *unknownNode) word() uint64 {
	w := uint64(n.onItsWay) | uint64(n.mark)<<24 | uint64(n.waiting)<<30 | uint64(n.repeatable)<<36
	w |= uint64(n.token)<<39 | uint64(n.left)<<41 | uint64(n.stone)<<43 | uint64(n.stoneLeft)<<45 | uint64(n.gen)<<47
	for i, b := range [...]bool{n.up, n.unknown, n.owed, n.yes, n.gone, n.missing, n.repairable, n.bYes} {
		if b {
			w |= 1 << (49 + i)
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
	over // given up or released, or handed to the other process
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
	if c.round > 0 {
		if c.round--; c.round == 0 && c.phase == extending {
			c.phase = holding
		}
	}
	if c.until > 0 {
		c.until--
	}
}

// An unknownState is a state of the model.
type unknownState struct {
	nodes      [unknownNodes]unknownNode
	a, b       unknownClient
	extensions uint8
	ticks      uint8
	handed     bool // the other process has begun to release
}

func (s *unknownState) hash(words [unknownNodes]uint64) [2]uint64 {
	w := uint64(s.extensions) | uint64(s.ticks)<<8
	for i, c := range [...]unknownClient{s.a, s.b} {
		w |= (uint64(c.phase) | uint64(c.round)<<3 | uint64(c.until)<<5) << (16 + 8*i)
	}
	if s.handed {
		w |= 1 << 40
	}
	h := newStateHash(w)
	for _, w := range words {
		h.mix(w)
	}
	return h.sum()
}
