package node

import (
	"cmp"
	"time"
)

// A State is where a node's connection is in its life; docs/algorithm.md has the diagram.
type State uint8

// The states.
const (
	Idle       State = iota // nobody has needed it yet
	Connecting              // borrowing, handshake: requests queue
	Up                      // requests flow
	Backoff                 // waiting to try again: requests fail at once
	Closed
)

// A Config is what the rules of a node need to know, set once.
type Config struct {
	Timeout   time.Duration // the Redlock's node timeout
	Silence   time.Duration // a longer time without any reply is no sign of a long queue at the node; see ErrBehind
	Age       time.Duration // at which a connection is made anew; 0: never
	UnusedKey string        // a key that never exists
	Epoch     time.Time     // what requests' times are counted from

	MaxUnanswered func() int64       // how many locks may be unanswered before one more is refused
	IsEnough      func() bool        // whether a quorum of nodes vote, as far as is known
	Code          func(error) string // the first word of a server's error, and empty for others

	// Clock returns now, or a later time, and by how much the monotonic clock is behind then, as it may stand
	// still while the machine sleeps. nil: it is not.
	Clock func(now time.Time) (at time.Time, lead time.Duration)
}

// A Node is what this client knows about one Redis master, and decides what to send to it. The package's comment says how
// it is driven. The functions of its Config, trace owners and dialects must not call the Node.
type Node struct {
	Config

	state     State
	down      error // why it is not up
	conn      *Conn // while up
	queue     requestQueue
	inFlight  requestQueue // written, not answered, in order
	releases  dueReleases  // releases to send again
	drainPing Request      // the last one of a connection that is being closed
	facts     []Fact       // not returned by Facts yet

	closing            bool
	failed             bool // not connected since an attempt failed, or since silence or a wrong server ended one
	refusedWhileSilent bool // a request was refused for silence since the last reply
	forgot             bool // the server has forgotten scripts since the handshake
	scriptsOnly        bool // a value was too long to be read; see direct.go
	lost               bool // a loss was reported, and no return since
	resumes            bool // its connection is made anew after a standstill, see standstill.go

	unknown int       // requests of unknown outcome, since the last Settled fact
	settled int       // owed releases that were carried out since the last Settled fact
	rtt     roundTrip // from a request's writing to its reply
	takes   time.Duration
	stats   Stats // the counters; Stats completes it

	misses   misses   // the latest votes that did not come in time
	vanished vanished // keys that have vanished
	renewal  renewal
}

// New returns a node that has not been connected to yet.
func New(c Config) *Node {
	n := &Node{Config: c}
	n.vanished.clock, n.vanished.epoch = c.Clock, c.Epoch
	n.drainPing.Task = &Task{Limit: c.Timeout}
	return n
}

// since returns a time as requests keep it: since the epoch.
func (n *Node) since(now time.Time) time.Duration { return now.Sub(n.Epoch) }

// Backlog returns how many requests are queued or unanswered.
func (n *Node) Backlog() int { return n.queue.len + n.inFlight.len }

// push queues a request.
func (n *Node) push(q *Request) { n.queue.push(q) }

// record notes a fact.
func (n *Node) record(f Fact) { n.facts = append(n.facts, f) }

// Facts returns the facts since its last call, in their order. The slice is valid until the next step.
func (n *Node) Facts() []Fact {
	facts := n.facts
	n.facts = n.facts[:0]
	return facts
}

// State returns where the node's connection is in its life.
func (n *Node) State() State { return n.state }

// Takes returns how long the node has recently taken to answer: the mean, or its last reply if that took less, as one
// late reply makes no slow node. 0: it is unknown, or the node is not connected.
func (n *Node) Takes() time.Duration { return n.takes }

// Abstains returns why the node grants no lock though it is up, as last heard; nil if it does.
func (n *Node) Abstains(now time.Time) error {
	if n.conn == nil || n.conn.Dialect == nil {
		return nil
	}
	return n.conn.Dialect.Abstains(now)
}

// Speaks returns the dialect on the node's connection; nil without one.
func (n *Node) Speaks() ConnDialect {
	if n.conn == nil {
		return nil
	}
	return n.conn.Dialect
}

// Reach reports whether the node is up, or is being connected to without a failure since it was up. It begins to
// connect if nobody has needed the node yet.
func (n *Node) Reach() (up, connecting bool) {
	if n.state == Idle && !n.closing {
		n.want()
	}
	return n.state == Up, n.state == Connecting && !n.failed
}

// want begins to connect to the node, for the first time.
func (n *Node) want() {
	n.state = Connecting
	n.record(Fact{What: Wanted})
}

// Unreached returns the vote of a node that was not asked because it may not be connected; nil if it is.
func (n *Node) Unreached() error {
	if n.state == Up {
		return nil
	}
	return cmp.Or(n.down, ErrUnreached)
}

// Stats are the state of a node, and its counters. The fields are those of redlock.NodeStats, in the same order, where
// they are explained. Others fill in what the rules do not know.
type Stats struct {
	Node            string // by package link
	Up              bool
	Listens         bool // by package link
	Err             error
	Abstains        error
	Backlog         int
	Unknown         int64
	Cleaned         int64
	PendingReleases int
	Repeats         int
	RepeatsDropped  int64
	Connects        int64 // by package link
	Unresponsive    error
	Vanished        int64
	VanishedAt      time.Time
	RTT             time.Duration
	Votes           struct{ Yes, Taken, Lost, Timeout, Overloaded, Quarantined, Failed int64 } // by package redlock
}

// Stats returns the node's state and counters.
func (n *Node) Stats(now time.Time) Stats {
	s := n.stats
	s.Up, s.Err, s.Abstains, s.Backlog, s.RTT = n.state == Up, n.down, n.Abstains(now), n.Backlog(), n.rtt.smoothed
	s.PendingReleases, s.Repeats = n.releases.open, n.releases.len-n.releases.open
	s.RepeatsDropped = n.releases.dropped
	if s.Up {
		s.Unresponsive = n.unresponsive(now)
	}
	return s
}
