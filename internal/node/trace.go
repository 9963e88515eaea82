package node

import "time"

// A Trace is what is known about the keys of a token on every node. (A redlock.Tracer is something else.) A token is
// made for one attempt and never used again. Otherwise a delayed message of one attempt could affect the next.
type Trace struct {
	owner  TraceOwner
	places []place  // by node; places[i] belongs to node i
	size   int      // for another process's token, by Release: about the bytes kept for it; else 0
	small  [5]place // room for the usual numbers of nodes
}

// A place is what is known about a token on one node.
type place struct {
	mark  Mark
	until time.Duration // how long the keys live at least, since the node's epoch; 0: unknown. See vanish.go
}

// A TraceOwner says how its token is released. Any goroutine may call it, even in a step of a node, so it must neither
// wait nor call a node.
type TraceOwner interface {
	// Release returns the command to send now, and who receives the answer if no round waits for it; nil: nobody.
	// again: it was sent before, so waiters must be told.
	Release(now time.Time, again bool) (Command, Receiver)

	// LeavesKeys reports whether the release may leave the keys for a time, instead of deleting them.
	LeavesKeys() bool

	// Life returns the longest ttl that a sent or queued request may have given the keys.
	Life() time.Duration

	Keys() []any // the keys that a request may set; not changed
	Value() any  // the keys' value: the token, boxed
}

// Begin sets up the state of a token on so many nodes.
func (t *Trace) Begin(owner TraceOwner, nodes int) {
	t.owner, t.places = owner, t.small[:]
	if nodes > len(t.small) {
		t.places = make([]place, nodes)
	}
	t.places = t.places[:nodes]
}

// BeginForeign is Begin for a token of another process, for which about size bytes are kept: any node may have its
// keys.
func (t *Trace) BeginForeign(owner TraceOwner, nodes, size int) {
	t.Begin(owner, nodes)
	t.size = size
	for i := range t.places {
		t.places[i].mark = MarkSent | markUnknown // The other process may have sent something just now.
	}
}

// at returns the token's mark on a node.
func (t *Trace) at(index int) Mark { return t.places[index].mark }

// Has reports whether the token has that mark on a node. Only that node's driver may call it.
func (t *Trace) Has(index int, m Mark) bool { return t.at(index)&m != 0 }

// MinLate is the least time for which late requests are expected. One that comes even later can set its key again, for
// one ttl.
const MinLate = time.Minute

// lateness returns how long late requests of the token are expected: for its ttl, but at least a minute. The ttl of
// another process's token is unknown, and such tokens may be many: only one whose release is refused is repeated for as
// long as a node that is away would be owed it.
func (t *Trace) lateness(refused bool) time.Duration {
	if t.size > 0 && !refused {
		return MinLate
	}
	return max(t.owner.Life(), MinLate)
}
