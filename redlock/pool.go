package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Pool hands out connections to one Redis master. *redis.Pool is one.
//
// Redlock borrows one connection, keeps it for as long as it works, and gives
// it back with Close. The connection must implement redis.ConnWithTimeout and
// redis.ConnWithContext (redigo's own do), and must allow one goroutine to Send
// and Flush while another one receives. GetContext may block and may ignore its
// context: it holds up nobody but this node.
type Pool interface {
	GetContext(ctx context.Context) (redis.Conn, error)
}

// A PoolFunc is a Pool made of a function that makes a new connection each time. It is
// the way to credentials that change: the function looks them up, and is called for each
// connection, also when the server has ended one because its credentials have expired.
// What a node's Pool of [NewNode] returns may be returned as it is.
type PoolFunc func(ctx context.Context) (redis.Conn, error)

// GetContext calls f.
func (f PoolFunc) GetContext(ctx context.Context) (redis.Conn, error) { return f(ctx) }

// A nodeState is where a node's connection is in its life; docs/algorithm.md
// has the diagram.
type nodeState uint8

const (
	nodeIdle       nodeState = iota // nobody has needed it yet
	nodeConnecting                  // borrowing, handshake, tombstone: requests queue
	nodeUp                          // requests flow
	nodeBackoff                     // waiting to try again: requests fail at once
	nodeClosed
)

// A node is one Redis master with the pipeline to it. It is safe for concurrent
// use. Its goroutine starts with the first request and ends with close.
type node struct {
	name      string
	pool      Pool
	timeout   time.Duration // the Redlock's node timeout
	ready     *readiness    // the Redlock's
	admission *admission    // the Redlock's

	connectLimit time.Duration // of an attempt to connect

	epoch   time.Time // what requests' times are counted from
	events  *dispatcher
	ear     *listener
	guard   *guard    // nil: no quarantine
	running *runGuard // of the run that the last handshake has met; nil: no quarantine

	// stone is the key of the session's tombstone, boxed. The session is this
	// node value: each of its connections has a generation, and the tombstone
	// says which generations have been given up.
	stone any

	ctx    context.Context //nolint:containedctx // Ends with the node; borrowings derive from it.
	cancel context.CancelFunc
	done   chan struct{} // closed when the node's goroutine has ended

	mu       sync.Mutex
	work     sync.Cond // the writer waits for it: something is queued, or the end
	state    nodeState
	down     error // why it is not up
	queue    requestQueue
	flight   requestQueue // written, not answered, in order
	later    requestQueue // releases that were refused and are to be sent again; while up
	owed     requestQueue // releases that go first on the next connection; while not up
	bye      request      // the last one of a connection that is being closed
	line     *pipeline    // while up
	gen      int64
	closing  bool
	database int       // of a pool's connections, as far as is known
	failed   bool      // not connected since an attempt failed, or since silence or a wrong server ended one
	shunned  bool      // a request was refused for silence since the last reply
	forgot   bool      // the server has forgotten scripts since the handshake
	lost     bool      // a loss was reported and no return yet
	stuck    int       // calls of the pool that have not returned
	borrowed time.Time // when it was last called

	unknown  int           // lock requests and repairs whose outcome is unknown, and no tombstone refuses them yet
	life     time.Duration // how long a tombstone must refuse them
	late     time.Duration // until when they are reckoned with, since the node's epoch
	swept    time.Duration // when the releases that are owed were last looked through for room, since the node's epoch
	cleaned  int64         // counter: releases that were owed and have been carried out
	unknowns int64         // counter: unknown outcomes ever
	connects int64         // counter: attempts to connect
}

func newNode(n Node, session string, timeout time.Duration, events *dispatcher) *node {
	nd := &node{name: n.Name, pool: n.Pool, timeout: timeout, epoch: time.Now(), events: events, stone: session, done: make(chan struct{})}
	nd.work.L = &nd.mu
	nd.ready, nd.connectLimit = new(readiness), connectLimit(timeout)
	nd.bye.task = &task{kind: byeKind, limit: timeout}
	nd.ctx, nd.cancel = context.WithCancel(context.Background())
	return nd
}

// enqueue hands a request to the node. An error is the node's vote; the
// request was not taken then. A release is always taken: if it cannot be sent
// it is owed, and the error is only for the vote. One for a claim of which
// nothing was sent to this node is answered at once where the node is not
// answering: its lock request, if it waits in the queue, will not be sent.
func (n *node) enqueue(q *request, now time.Time) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	release := q.kind == releaseKind
	if release {
		q.claim.marks[q.index] |= markReleased
	}
	switch {
	case n.state == nodeClosed || n.closing && !release:
		return ErrClosed
	case n.state == nodeBackoff:
		n.owe(q)
		return n.down
	case release && n.state == nodeConnecting && q.claim.marks[q.index]&markSent == 0:
		return errUnreached
	case n.isSilent(now, q.limit) && (!release || q.claim.marks[q.index]&markSent == 0):
		n.shunned = true
		return errSilent
	case n.isCrowded() && (q.kind == lockKind || release && q.claim.marks[q.index]&markSent == 0):
		return errCrowded
	case (!release || q.claim.marks[q.index]&markForeign != 0) && n.backlog() >= maxBacklog:
		return errBacklog
	case n.state == nodeIdle:
		n.state = nodeConnecting
		go n.run()
	}
	n.push(q)
	return nil
}

// isSilent reports whether the oldest request has been unanswered for longer
// than somebody who asks now would wait. What came behind it would only time out as well, and make a heap of requests whose outcome is unknown if
// the connection breaks. The patience is that of the one who asks: by the oldest
// request's own, one caller's short timeout would fail everybody. n.mu is held.
func (n *node) isSilent(now time.Time, patience time.Duration) bool {
	q := n.flight.head
	return q != nil && now.Sub(n.epoch)-q.sent > max(patience, n.timeout)
}

// isCrowded reports whether so many locks are unanswered that one more is not to be
// asked. Such a node is slower than a quorum of the others, which decide without it; it would
// gather seconds of work, in which it answers extensions and releases too late.
// There is no waiting for it. n.mu is held.
func (n *node) isCrowded() bool {
	return int64(n.queue.locks+n.flight.locks) >= n.admission.crowd.Load()
}

// backlog is how many requests are queued, unanswered, or to be sent again. n.mu is
// held.
func (n *node) backlog() int { return n.queue.len + n.flight.len + n.later.len }

// push queues a request. n.mu is held.
func (n *node) push(q *request) {
	n.queue.push(q)
	n.work.Signal()
}

// release gives up the claim on this node in the background. Nothing is sent
// where nothing can have been left.
func (n *node) release(c *claim, index int) {
	n.mu.Lock()
	c.marks[index] |= markReleased
	sent := c.marks[index]&markSent != 0
	n.mu.Unlock()
	if sent {
		t := &task{kind: releaseKind, cmd: c.releaseCommand(time.Now()), claim: c, limit: n.timeout, voter: c.wakeReader()}
		_ = n.enqueue(&request{task: t, index: uint16(index)}, time.Now())
	}
}

// isUp reports whether the node is connected.
func (n *node) isUp() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state == nodeUp
}

// confirmed reports whether a release has removed the claim from this node.
func (n *node) confirmed(c *claim, index int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return c.marks[index]&markConfirmed != 0
}

// withdraw takes back a request that has not been written. Releases stay.
func (n *node) withdraw(q *request) {
	if q.kind == releaseKind {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if q.queue == &n.queue {
		n.queue.remove(q)
	}
}

// sayBye queues the last request of the connection if the node is being closed.
// It goes behind every release. n.mu is held, and the node is up.
func (n *node) sayBye() {
	if n.closing && n.bye.queue == nil {
		n.push(&n.bye)
	}
}

// repair hands a repair to the node. It is not kept for a node that is not up.
func (n *node) repair(q *request) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.state != nodeUp || n.closing:
		return errUnreached
	case q.claim.marks[q.index]&markReleased != 0:
		return errWithdrawn
	case n.isSilent(time.Now(), q.limit):
		return errSilent
	case n.backlog() >= maxBacklog:
		return errBacklog
	}
	n.push(q)
	return nil
}

// run is the node's goroutine: it keeps the connection up until close.
func (n *node) run() {
	defer close(n.done)
	var redial redialer
	for {
		p, err := n.connect()
		var wait time.Duration
		if err == nil {
			began := time.Now()
			err = p.read()
			n.hangUp(p, err)
			if err == nil || n.mayEnd() {
				n.fail(nodeClosed, ErrClosed)
				return
			}
			wait = redial.after(p, began, time.Now())
		} else {
			wait = redial.failed()
		}
		if wait > 0 && !n.rest(err, wait) {
			n.fail(nodeClosed, ErrClosed)
			return
		}
	}
}

// rest waits before the next attempt to connect; false when the node is being
// closed instead.
func (n *node) rest(why error, backoff time.Duration) bool {
	n.fail(nodeBackoff, fmt.Errorf("not connected: %w", why))
	t := time.NewTimer(backoff/2 + rand.N(backoff))
	defer t.Stop()
	select {
	case <-t.C:
	case <-n.ctx.Done():
		return false
	}
	if n.mayEnd() {
		return false
	}
	n.mu.Lock()
	n.state = nodeConnecting
	n.mu.Unlock()
	return true
}

// mayEnd reports whether the node is being closed and owes nothing.
func (n *node) mayEnd() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closing && n.owed.len == 0 && n.queue.len == 0
}

// fail enters a state in which nothing can be sent, and answers what is queued.
func (n *node) fail(s nodeState, why error) {
	n.mu.Lock()
	n.state, n.down = s, why
	n.failed = true
	n.ready.tell()
	if s == nodeBackoff {
		n.reportLoss(why)
	}
	var failed []*request
	for q := n.queue.pop(); q != nil; q = n.queue.pop() {
		n.owe(q)
		failed = append(failed, q)
	}
	n.mu.Unlock()
	for _, q := range failed {
		q.deliver(outcome{err: why}, time.Now())
	}
}

// reportLoss sends one event per loss. n.mu is held.
func (n *node) reportLoss(why error) {
	if !n.lost && !n.closing {
		n.lost = true
		n.events.send(n.ctx, Event{Kind: EventNodeDown, Node: n.name, Err: why})
	}
}

// hangUp ends a pipeline whose reader has returned: what is in flight gets an
// answer, the outcome of lock requests among it is unknown, releases are owed, and the
// connection goes back to its pool once reader and writer have let go of it.
func (n *node) hangUp(p *pipeline, why error) {
	n.mu.Lock()
	n.state, n.line, n.shunned = nodeConnecting, nil, false
	n.failed = p.mute || p.misled != nil
	n.readyLocked(false)
	if why != nil {
		n.reportLoss(why)
	}
	var failed []*request
	for q := n.flight.pop(); q != nil; q = n.flight.pop() {
		n.owe(q)
		switch q.kind {
		case lockKind, repairKind:
			n.leave(q)
		case releaseKind:
			q.claim.marks[q.index] |= markUnheard
		case askKind, pingKind, byeKind:
		}
		failed = append(failed, q)
	}
	for q := n.later.pop(); q != nil; q = n.later.pop() {
		n.owe(q)
	}
	p.settles.end(n)
	if n.bye.queue != nil {
		n.queue.remove(&n.bye) // It was this connection's; the next one gets its own.
	}
	n.mu.Unlock()
	for _, q := range failed {
		q.deliver(outcome{err: why}, time.Now())
	}
	n.ear.drop()
	doubt := time.AfterFunc(n.connectLimit, n.doubt)
	defer doubt.Stop()
	<-p.writerDone
	p.wire.giveBack()
}

// close refuses new requests, lets what is queued and in flight end, and ends
// the connection. Bounded by ctx, as a hung node would otherwise hold it up; what it
// has left then stays until its ttl. Called once.
func (n *node) close(ctx context.Context) {
	n.mu.Lock()
	n.closing = true
	switch {
	case n.state == nodeIdle:
		n.state = nodeClosed
		close(n.done)
	case n.state == nodeUp:
		for q := n.later.pop(); q != nil; q = n.later.pop() {
			n.push(q) // There is no time to wait any more.
		}
		n.sayBye()
	case n.owed.len == 0 && n.queue.len == 0:
		n.cancel() // Nothing to wait for.
	}
	n.mu.Unlock()
	select {
	case <-n.done:
	case <-ctx.Done():
		n.kill()
	}
	n.cancel()
}

// kill ends the node's goroutine without regard for what is outstanding. The
// connection is either up, or will not be: answer looks at ctx.
func (n *node) kill() {
	n.cancel()
	n.mu.Lock()
	p := n.line
	n.mu.Unlock()
	if p != nil {
		_ = p.abort(ErrClosed)
	}
}
