package node

import (
	"sync/atomic"
	"time"
)

// A Trace is what is known of what a token has left on every node. (A redlock.Tracer is something
// else.) A token is made for one attempt and never used again: with one token over several
// attempts, what is late of an earlier attempt would act on a later one.
type Trace struct {
	owner TraceOwner
	life  atomic.Int64 // the ttl in ns, the longest one after extensions
	marks []Mark       // by node; marks[i] is guarded by the mutex of node i
	size  int          // of another process's token, by Release: about the bytes that are kept for it; else 0
	small [8]Mark      // room for the marks of the usual numbers of nodes
	lives lifetimes    // until when the keys live at least; see vanish.go
}

// A TraceOwner says how its token is released. It is called from any goroutine, also under a
// node's mutex, so it must not wait, and not call a node.
type TraceOwner interface {
	// Release returns the command to send at the time now, and who receives the answer if no round
	// waits for it; nil: nobody. again: it was sent before, so waiters must be told.
	Release(now time.Time, again bool) (Command, Receiver)

	// LeavesKeys reports whether the release may leave the keys for a time, instead of deleting them.
	LeavesKeys() bool

	Keys() []any // that a request may set; not changed
	Value() any  // of the keys: the token, boxed
}

// Begin sets up the state of a token that is to live for ttl on so many nodes.
func (t *Trace) Begin(owner TraceOwner, nodes int, ttl time.Duration) {
	t.owner, t.marks = owner, t.small[:]
	if nodes > len(t.small) {
		t.marks = make([]Mark, nodes)
	}
	t.marks = t.marks[:nodes]
	t.lives.begin(nodes)
	t.life.Store(int64(ttl))
}

// BeginForeign is Begin for a token that another process has made, for which about size
// bytes are kept: any node may have its keys. For the life of ttl they are reckoned with.
func (t *Trace) BeginForeign(owner TraceOwner, nodes int, ttl time.Duration, size int) {
	t.Begin(owner, nodes, ttl)
	t.size = size
	for i := range t.marks {
		t.marks[i] = MarkSent | markUnknown // Another process may have sent something just now.
	}
}

// Grow notes that the token's keys may have been given ttl to live. Before the
// request is sent: it counts even if no answer comes.
func (t *Trace) Grow(ttl time.Duration) {
	for {
		life := t.life.Load()
		if life >= int64(ttl) || t.life.CompareAndSwap(life, int64(ttl)) {
			return
		}
	}
}

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
	return max(t.Longest(), MinLate)
}

// Longest is the longest ttl that the token's keys may have been given.
func (t *Trace) Longest() time.Duration { return time.Duration(t.life.Load()) }

// lifetimes are, by node, until when the keys of a token live there at least; 0: nothing is known. lifetimes[i]
// is guarded by the mutex of node i.
type lifetimes struct {
	by    []time.Duration
	small [5]time.Duration // room for the usual numbers of nodes
}

func (l *lifetimes) begin(nodes int) {
	l.by = l.small[:]
	if nodes > len(l.small) {
		l.by = make([]time.Duration, nodes)
	}
	l.by = l.by[:nodes]
}
