package node

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
)

// A nodeState is where a node's connection is in its life; docs/algorithm.md
// has the diagram.
type nodeState uint8

const (
	nodeIdle       nodeState = iota // nobody has needed it yet
	nodeConnecting                  // borrowing, handshake: requests queue
	nodeUp                          // requests flow
	nodeBackoff                     // waiting to try again: requests fail at once
	nodeClosed
)

// A Node is one Redis master with the pipeline to it. It is safe for concurrent
// use. Its goroutine starts when the node is first needed and ends with Close.
type Node struct {
	Config
	Votes Votes

	misses misses       // the last votes, as far as they did not come in time
	takes  atomic.Int64 // in ns; see Takes
	mute   atomic.Bool  // its last vote was none

	Source *conn.Source // of its connections

	epoch        time.Time // what requests' times are counted from
	subscription *subscription

	ctx    context.Context //nolint:containedctx // Ends with the node; borrowings derive from it.
	cancel context.CancelFunc
	done   chan struct{} // closed when the node's goroutine has ended

	// Never taken with a Lock's, a round's or another node's. Observer, trace owners and dialect
	// are called with it held, receivers never.
	mu                 sync.Mutex
	work               sync.Cond // the writer waits for it: something is queued, or the end
	state              nodeState
	down               error // why it is not up
	queue              requestQueue
	inFlight           requestQueue // written, not answered, in order
	releases           dueReleases  // those that are to be sent again
	drainPing          Request      // the last one of a connection that is being closed
	pipeline           *pipeline    // while up
	closing            bool
	failed             bool // not connected since an attempt failed, or since silence or a wrong server ended one
	refusedWhileSilent bool // a request was refused for silence since the last reply
	forgot             bool // the server has forgotten scripts since the handshake
	scriptsOnly        bool // a value was too long to be read; see direct.go
	lost               bool // a loss was reported and no return yet
	resumes            bool // its connection is made anew after a standstill, see standstill.go

	unknown  int       // requests of unknown outcome of which the observer was not told
	settled  int       // releases that were owed, have been carried out, and the same
	rtt      roundTrip // from a request's writing to its reply
	cleaned  int64     // counter: releases that were owed and have been carried out
	unknowns int64     // counter: unknown outcomes ever
	connects int64     // counter: attempts to connect

	vanished vanished // keys

	renewal renewal
	aside   sync.WaitGroup // goroutines about connections that do not serve yet, or no more
}

// New returns a node that has not been connected to yet. Before it is used, it must be added to
// Subscriptions.
func New(c Config) *Node {
	c.ConnectTimeout = max(ConnectLimit(c.Timeout), c.ConnectTimeout)
	n := &Node{Config: c, Source: conn.NewSource(c.Pool), epoch: time.Now(), done: make(chan struct{})}
	n.work.L = &n.mu
	n.vanished.clock, n.vanished.epoch = c.Clock, n.epoch
	n.drainPing.Task = &Task{Limit: c.Timeout}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

// Enqueue hands a request to the node. An error is the node's vote; the
// request was not taken then. A release is always taken: if it cannot be sent
// it is owed, and the error is only for the vote. One for a token of which
// nothing was sent to this node is answered at once where the node is not
// answering: its lock request, if it waits in the queue, will not be sent. A repair
// is not kept for a node that is not up.
func (n *Node) Enqueue(q *Request, now time.Time) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	release := q.Kind == Release
	if release {
		q.note(Asked)
	}
	switch {
	case n.state == nodeClosed || n.closing && !release:
		return ErrClosed
	case n.state == nodeBackoff:
		n.owe(q)
		return n.down
	case n.state == nodeConnecting && n.failed && q.Kind == LockRequest && n.IsEnough():
		return n.unreached() // It mostly hangs, and a vote that is pending keeps the others from settling a split one.
	case n.state != nodeUp && q.Kind == RepairRequest, n.state == nodeConnecting && release && !q.mark().mayBeOn():
		return ErrUnreached
	case n.isSilent(now, q.Limit) && (!release || !q.mark().mayBeOn()):
		n.refusedWhileSilent = true
		if n.pipeline != nil && now.Sub(n.pipeline.lastReply) < n.Silence {
			return ErrBehind
		}
		return ErrSilent
	case n.hasTooManyUnanswered() && (q.Kind == LockRequest || release && !q.mark().mayBeOn()):
		return errTooManyUnanswered
	case (!release || q.Trace.size > 0) && n.backlog() >= MaxBacklog:
		return ErrBacklog
	case n.state == nodeIdle:
		n.state = nodeConnecting
		go n.run()
	}
	n.push(q)
	return nil
}

// isSilent reports whether the oldest request has been unanswered for longer
// than somebody who asks now would wait. What came behind it would only time out as well, and
// make a heap of requests whose outcome is unknown if the connection breaks. The patience is that
// of the one who asks: by the oldest request's own, one caller's short timeout would fail
// everybody. n.mu is held.
func (n *Node) isSilent(now time.Time, patience time.Duration) bool {
	q := n.inFlight.head
	return q != nil && now.Sub(n.epoch)-q.sent > max(patience, n.Timeout) && !n.mayHaveUnread(now)
}

// hasTooManyUnanswered reports whether so many locks are unanswered that one more is not to be
// asked. Such a node is slower than a quorum of the others, which decide without it; it would
// gather seconds of work, in which it answers extensions and releases too late.
// There is no waiting for it. n.mu is held.
func (n *Node) hasTooManyUnanswered() bool {
	return int64(n.queue.locks+n.inFlight.locks) >= n.MaxUnanswered.Load()
}

// backlog is how many requests are queued or unanswered. n.mu is held.
func (n *Node) backlog() int { return n.queue.len + n.inFlight.len }

// push queues a request. n.mu is held.
func (n *Node) push(q *Request) {
	n.queue.push(q)
	n.work.Signal()
}

// Release gives up the token on this node in the background. Nothing is sent
// where nothing can have been left.
func (n *Node) Release(t *Trace, index int) {
	n.mu.Lock()
	t.note(uint16(index), Release, Asked, false)
	sent := t.marks[index].mayBeOn()
	n.mu.Unlock()
	if sent {
		now := time.Now()
		cmd, receiver := t.owner.Release(now, false)
		_ = n.Enqueue(&Request{Task: &Task{Kind: Release, Command: cmd, Trace: t, Limit: n.Timeout, Receiver: receiver}, Index: uint16(index)}, now)
	}
}

// Speaks is the dialect on the node's connection; nil without one.
func (n *Node) Speaks() ConnDialect {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pipeline == nil {
		return nil
	}
	return n.pipeline.dialect
}

// Takes is how long the node has taken to answer of late: the mean, or its last reply if that took less, as one that is
// late makes no slow node. 0: it is not known, or the node is not connected.
func (n *Node) Takes() time.Duration { return time.Duration(n.takes.Load()) }

// IsVoting reports whether the node is connected, has answered since, and its last vote was one.
func (n *Node) IsVoting() bool { return n.takes.Load() > 0 && !n.mute.Load() }

// Listens reports whether messages of the node's subscription are heard.
func (n *Node) Listens() bool { return n.subscription.isUp() }

// Voted takes a vote that a round has counted, or why it has none.
func (n *Node) Voted(out *Outcome, at time.Time) {
	silent := out.Stance == Silent
	if silent && isOwn(out.Err) {
		return
	}
	if n.mute.Load() != silent {
		n.mute.Store(silent)
	}
	if !silent && !n.misses.open.Load() {
		return // Mostly. Nothing to note, and no mutex to take.
	}
	n.hear(out, false, at)
}

// hear takes a vote, or what came of a write that was tried.
func (n *Node) hear(out *Outcome, tried bool, at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case out.Stance != Silent || out.Abstained:
		if n.misses.hit(tried, at) {
			n.Observer.Up()
		}
	case n.state == nodeUp && n.misses.miss(out.Err, at):
		n.Observer.Unresponsive(n.unresponsive(at))
	}
}

// unresponsive says why the node counts as unavailable though it is up; nil if it does not. n.mu is held.
func (n *Node) unresponsive(now time.Time) error { return n.misses.why(now, n.rtt.smoothed, n.Timeout) }

// reachability says whether the node is up, or is being connected to without a failure since
// it was up; it begins to connect if nobody has needed the node yet.
func (n *Node) reachability() (up, connecting bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == nodeIdle && !n.closing {
		n.state = nodeConnecting
		go n.run()
	}
	return n.state == nodeUp, n.state == nodeConnecting && !n.failed
}

// Reachable is how many of the nodes are connected, and how many are being connected to, as far as nothing bad is known
// of them. It begins to connect those that nobody has needed yet.
func Reachable(nodes []*Node) (up, connecting int) {
	for _, n := range nodes {
		switch isUp, isConnecting := n.reachability(); {
		case isUp:
			up++
		case isConnecting:
			connecting++
		}
	}
	return up, connecting
}

// Unreached is the vote of a node that was not asked, as it may not have been connected;
// nil if it is.
func (n *Node) Unreached() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == nodeUp {
		return nil
	}
	return n.unreached()
}

// unreached says why the node is not connected. n.mu is held.
func (n *Node) unreached() error { return cmp.Or(n.down, ErrUnreached) }

// Has reports whether the token has that mark of this node.
func (n *Node) Has(t *Trace, index int, m Mark) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return t.marks[index]&m != 0
}

// Withdraw takes back a request that has not been written. Releases stay.
func (n *Node) Withdraw(q *Request) {
	if q.Kind == Release {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if q.queue == &n.queue {
		n.queue.remove(q)
	}
}

// sendDrainPing queues the last request of the connection if the node is being closed.
// It goes behind every release. n.mu is held, and the node is up.
func (n *Node) sendDrainPing() {
	if n.closing && n.drainPing.queue == nil {
		n.push(&n.drainPing)
	}
}

// Repair is Enqueue for a repair, which is dropped unless it can be sent within the given time.
func (n *Node) Repair(q *Request, within time.Duration) error {
	q.gone = after(time.Since(n.epoch), within)
	return n.Enqueue(q, time.Now())
}

// A Status is the state of a node, and what it has counted.
type Status struct {
	Up       bool
	Listens  bool  // messages of its subscription are heard
	Down     error // why it is not, if an attempt has failed
	Abstains error // why it grants no lock though it is up, as last heard
	Backlog  int   // requests queued or unanswered
	Unknown  int64 // requests whose outcome a broken connection has left unknown
	Released int64 // releases that were owed and have been carried out
	Owed     int   // releases that were not carried out: the node is away, or has refused them
	Repeats  int   // releases that are sent again, as something may come late
	Dropped  int64 // releases that were not, for want of room
	Connects int64 // attempts to connect
	RTT      time.Duration

	Unresponsive error     // why it is as good as down though it is up: no vote has come in time
	Vanished     int64     // times that keys were gone before their time
	VanishedAt   time.Time // when that was last; zero: never
}

// Status returns the state of the node. It does no I/O.
func (n *Node) Status() Status {
	listens := n.Listens()
	n.mu.Lock()
	defer n.mu.Unlock()
	s := Status{
		Up: n.state == nodeUp, Listens: listens, Down: n.down, Backlog: n.backlog(),
		Unknown: n.unknowns, Released: n.cleaned, Owed: n.releases.open, Connects: n.connects, RTT: n.rtt.smoothed,
		Repeats: n.releases.len - n.releases.open, Dropped: n.releases.dropped,
		Vanished: n.vanished.times, VanishedAt: n.vanished.last,
	}
	if s.Up {
		s.Unresponsive = n.unresponsive(time.Now())
	}
	if n.pipeline != nil && n.pipeline.dialect != nil {
		s.Abstains = n.pipeline.dialect.Abstains(time.Now())
	}
	return s
}

// RefusedElsewhere notes that an attempt was turned away while the node is silent. Calls with a
// long node timeout have all places then, and must not keep a dead connection for the others,
// which do not get as far as to ask the node.
func (n *Node) RefusedElsewhere(now time.Time, patience time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isSilent(now, patience) {
		n.refusedWhileSilent = true
	}
}
