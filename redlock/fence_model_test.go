package redlock

import (
	"fmt"
	"math/bits"

	"github.com/seed6c881748/redlock/internal/fences"
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
		m.fenceOf = fences.Of
	}
	if m.counts == nil {
		m.counts = fences.Counts
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
