package node

import "time"

// A Trace is what is known of what a token has left on every node. (A redlock.Tracer is something
// else.) A token is made for one attempt and never used again. Otherwise a delayed message of one
// attempt could affect the next.
type Trace struct {
	owner  TraceOwner
	places []place  // by node; what is in places[i] is node i's
	size   int      // of another process's token, by Release: about the bytes that are kept for it; else 0
	small  [5]place // room for those on the usual numbers of nodes
}

// A place is what is known of a token on one node.
type place struct {
	mark  Mark
	until time.Duration // until when they live at least, since the node's epoch; 0: nothing is known. See vanish.go
}

// A TraceOwner says how its token is released. It is called from any goroutine, also in a
// step of a node, so it must not wait, and not call a node.
type TraceOwner interface {
	// Release returns the command to send at the time now, and who receives the answer if no round
	// waits for it; nil: nobody. again: it was sent before, so waiters must be told.
	Release(now time.Time, again bool) (Command, Receiver)

	// LeavesKeys reports whether the release may leave the keys for a time, instead of deleting them.
	LeavesKeys() bool

	// Life is the longest ttl that the keys may have been given so far, or may be given by a request that was queued.
	Life() time.Duration

	Keys() []any // that a request may set; not changed
	Value() any  // of the keys: the token, boxed
}

// Begin sets up the state of a token on so many nodes.
func (t *Trace) Begin(owner TraceOwner, nodes int) {
	t.owner, t.places = owner, t.small[:]
	if nodes > len(t.small) {
		t.places = make([]place, nodes)
	}
	t.places = t.places[:nodes]
}

// BeginForeign is Begin for a token that another process has made, for which about size
// bytes are kept: any node may have its keys.
func (t *Trace) BeginForeign(owner TraceOwner, nodes, size int) {
	t.Begin(owner, nodes)
	t.size = size
	for i := range t.places {
		t.places[i].mark = MarkSent | markUnknown // Another process may have sent something just now.
	}
}

// at is the token's mark of a node.
func (t *Trace) at(index int) Mark { return t.places[index].mark }

// Has reports whether the token has that mark of a node. It is for that node's driver.
func (t *Trace) Has(index int, m Mark) bool { return t.at(index)&m != 0 }

// MinLate is for how long something late is reckoned with, at least. What comes even later can set its key again, for
// one ttl.
const MinLate = time.Minute

// lateness is for how long something late of the token is reckoned with: a minute at least, and its ttl. That of
// another process's is not known, and those may be many: only one whose release is refused is sent again for as
// long as a node that is away would be owed it.
func (t *Trace) lateness(refused bool) time.Duration {
	if t.size > 0 && !refused {
		return MinLate
	}
	return max(t.owner.Life(), MinLate)
}
