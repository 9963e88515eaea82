package link

import (
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

// A Config says what a node is made of.
type Config struct {
	Name           string
	Pool           conn.Pool
	UnusedKey      string         // a key that never exists
	Timeout        time.Duration  // the Redlock's node timeout
	ConnectTimeout time.Duration  // of an attempt to connect, if it is longer than what that takes at least
	Age            time.Duration  // at which a connection is made anew; 0: never
	MaxUnanswered  *atomic.Int64  // how many locks may be unanswered before one more is refused
	Silence        time.Duration  // after which without a reply it is not that a queue at the node is long
	Scripts        []*node.Script // those that a handshake loads
	Dialect        Dialect        // nil: requests are sent as they are given
	Observer       Observer
	Readiness      *Readiness
	IsEnough       func() bool // whether a quorum of nodes vote, as far as is known; called with the link's mutex held

	// Clock returns now, or a later time, and by how much the monotonic clock is behind then, as it may stand
	// still while the machine sleeps. nil: it is not.
	Clock func(now time.Time) (at time.Time, lead time.Duration)
}

// An Observer is told what becomes of a node's connection. It is called with a mutex held, the
// link's or, for Deaf, that of Subscriptions. So it must not wait, and not call the link.
type Observer interface {
	Up()            // the node is connected, or no longer unresponsive
	Lost(why error) // the node is down: once, until it is up again

	// Settled: a connection has settled what those before it had left open: so many releases that
	// were owed have been carried out. So many requests are of unknown outcome: what comes late of
	// them is released again.
	Settled(unknown, released int)

	// Vanished: the node no longer had the keys of a lock, see vanish.go of package node; times so far.
	Vanished(now time.Time, times int64)

	// Unresponsive: none of the last votes came in time, and why it counts as unavailable; once, until Up or Lost.
	Unresponsive(why error)

	// Deaf: waiters hear of no release from the node, and why; once, until they do.
	Deaf(why error)
}

// tell passes on what the rules have told. l.mu is held.
func (l *Link) tell(f *node.Fact) {
	switch f.What {
	case node.Wanted:
		go l.run()
	case node.Joined:
		l.Readiness.add(1)
	case node.Left:
		l.Readiness.add(-1)
	case node.Stalled:
		l.Readiness.add(0)
	case node.Well:
		l.Observer.Up()
	case node.Lost:
		l.Observer.Lost(f.Why)
	case node.Settled:
		l.Observer.Settled(f.Unknown, f.Released)
	case node.Vanished:
		l.Observer.Vanished(f.At, f.Times)
	case node.Unresponsive:
		l.Observer.Unresponsive(f.Why)
	}
}
