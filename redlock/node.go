package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
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
	nodeConnecting                  // borrowing, handshake, tombstone: requests queue
	nodeUp                          // requests flow
	nodeBackoff                     // waiting to try again: requests fail at once
	nodeClosed
)

// An observer is told what becomes of a node's connection. It is called with the node's
// mutex held, so it must not wait, and not call the node.
type observer interface {
	up()            // the node is connected
	ended()         // its connection has ended
	lost(why error) // the node is down: once, until it is up again

	// changed: the node is not coming any more; see node.coming.
	changed()

	// settled: a connection has settled what those before it had left open: so many
	// lock requests of unknown outcome are refused from now on, and so many releases
	// have been carried out.
	settled(unknown, released int)

	// deaf: waiters hear of no release from the node, and why; once, until they do.
	deaf(why error)
}

// A node is one Redis master with the pipeline to it. It is safe for concurrent
// use. Its goroutine starts with the first request and ends with close.
type node struct {
	name    string
	source  *conn.Source  // of its connections
	timeout time.Duration // the Redlock's node timeout
	crowd   *atomic.Int64 // how many locks may be unanswered before one more is refused

	connectLimit time.Duration // of an attempt to connect

	epoch   time.Time // what requests' times are counted from
	watcher observer
	ear     *listener
	scripts []*script   // those that a handshake loads
	dialect dialect     // nil: requests are sent as they are given
	spoken  connDialect // what the last handshake has learnt; nil without a dialect

	// stone is the key of the session's tombstone, boxed. The session is this
	// node value: each of its connections has a generation, and the tombstone
	// says which generations have been given up.
	stone any

	ctx    context.Context //nolint:containedctx // Ends with the node; borrowings derive from it.
	cancel context.CancelFunc
	done   chan struct{} // closed when the node's goroutine has ended

	mu      sync.Mutex
	work    sync.Cond // the writer waits for it: something is queued, or the end
	state   nodeState
	down    error // why it is not up
	queue   requestQueue
	flight  requestQueue // written, not answered, in order
	later   requestQueue // releases that were refused and are to be sent again; while up
	owed    requestQueue // releases that go first on the next connection; while not up
	bye     request      // the last one of a connection that is being closed
	line    *pipeline    // while up
	gen     int64
	closing bool
	failed  bool // not connected since an attempt failed, or since silence or a wrong server ended one
	shunned bool // a request was refused for silence since the last reply
	forgot  bool // the server has forgotten scripts since the handshake
	lost    bool // a loss was reported and no return yet

	unknown  int           // lock requests and repairs whose outcome is unknown, and no tombstone refuses them yet
	life     time.Duration // how long a tombstone must refuse them
	late     time.Duration // until when they are reckoned with, since the node's epoch
	swept    time.Duration // when the releases that are owed were last looked through for room, since the node's epoch
	cleaned  int64         // counter: releases that were owed and have been carried out
	unknowns int64         // counter: unknown outcomes ever
	connects int64         // counter: attempts to connect
}

// A nodeConfig says what a node is made of.
type nodeConfig struct {
	name           string
	pool           conn.Pool
	session        string        // the key of its tombstone
	timeout        time.Duration // the node timeout
	connectTimeout time.Duration
	crowd          *atomic.Int64
	scripts        []*script
	dialect        dialect // nil: none
	watcher        observer
}

func newNode(c nodeConfig) *node {
	nd := &node{
		name: c.name, source: conn.NewSource(c.pool), timeout: c.timeout, epoch: time.Now(), watcher: c.watcher, stone: c.session, crowd: c.crowd,
		scripts: c.scripts, dialect: c.dialect, done: make(chan struct{}),
	}
	nd.work.L = &nd.mu
	nd.connectLimit = max(connectLimit(c.timeout), c.connectTimeout)
	nd.bye.task = &task{kind: byeKind, limit: c.timeout}
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
		q.token.marks[q.index] |= markReleased
	}
	switch {
	case n.state == nodeClosed || n.closing && !release:
		return errClosed
	case n.state == nodeBackoff:
		n.owe(q)
		return n.down
	case release && n.state == nodeConnecting && q.token.marks[q.index]&markSent == 0:
		return errUnreached
	case n.isSilent(now, q.limit) && (!release || q.token.marks[q.index]&markSent == 0):
		n.shunned = true
		return errSilent
	case n.isCrowded() && (q.kind == lockKind || release && q.token.marks[q.index]&markSent == 0):
		return errCrowded
	case (!release || q.token.marks[q.index]&markForeign != 0) && n.backlog() >= maxBacklog:
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
	return int64(n.queue.locks+n.flight.locks) >= n.crowd.Load()
}

// backlog is how many requests are queued, unanswered, or to be sent again. n.mu is
// held.
func (n *node) backlog() int { return n.queue.len + n.flight.len + n.later.len }

// push queues a request. n.mu is held.
func (n *node) push(q *request) {
	n.queue.push(q)
	n.work.Signal()
}

// release gives up the token on this node in the background. Nothing is sent
// where nothing can have been left.
func (n *node) release(t *tokenState, index int) {
	n.mu.Lock()
	t.marks[index] |= markReleased
	sent := t.marks[index]&markSent != 0
	n.mu.Unlock()
	if sent {
		now := time.Now()
		release := &task{kind: releaseKind, cmd: t.owner.releaseCommand(now), token: t, limit: n.timeout, voter: t.owner.wakeReader()}
		_ = n.enqueue(&request{task: release, index: uint16(index)}, now)
	}
}

// isUp reports whether the node is connected.
func (n *node) isUp() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state == nodeUp
}

// coming says whether the node is up, or is being connected to without a failure since
// it was up; it begins to connect if nobody has needed the node yet.
func (n *node) coming() (up, coming bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == nodeIdle && !n.closing {
		n.state = nodeConnecting
		go n.run()
	}
	return n.state == nodeUp, n.state == nodeConnecting && !n.failed
}

// unreached is the vote of a node that was not asked, as it may not have been connected;
// nil if it is.
func (n *node) unreached() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.state == nodeUp:
		return nil
	case n.down != nil:
		return n.down
	default:
		return errUnreached
	}
}

// confirmed reports whether a release has removed the token from this node.
func (n *node) confirmed(t *tokenState, index int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return t.marks[index]&markConfirmed != 0
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
	case q.token.marks[q.index]&markReleased != 0:
		return errWithdrawn
	case n.isSilent(time.Now(), q.limit):
		return errSilent
	case n.backlog() >= maxBacklog:
		return errBacklog
	}
	n.push(q)
	return nil
}

// A status is the state of a node, and what it has counted.
type status struct {
	up       bool
	down     error // why it is not, if an attempt has failed
	abstains error // why it grants no lock though it is up, as last heard
	backlog  int   // requests queued or unanswered
	unknown  int64 // requests whose outcome a broken connection has left unknown
	released int64 // releases that were owed and have been carried out
	owed     int   // releases that wait for the next connection
	connects int64 // attempts to connect
}

func (n *node) status() status {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := status{
		up: n.state == nodeUp, down: n.down, backlog: n.backlog(),
		unknown: n.unknowns, released: n.cleaned, owed: n.owed.len, connects: n.connects,
	}
	if n.line != nil && n.line.dialect != nil {
		s.abstains = n.line.dialect.abstains(time.Now())
	}
	return s
}

// shun notes that an attempt was turned away while the node is silent. Calls with a long node
// timeout have all places then, and must not keep a dead connection for the others, which
// do not get as far as to ask the node.
func (n *node) shun(now time.Time, patience time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isSilent(now, patience) {
		n.shunned = true
	}
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
				n.fail(nodeClosed, errClosed)
				return
			}
			wait = redial.after(p, began, time.Now())
		} else {
			wait = redial.failed()
		}
		if wait > 0 && !n.rest(err, wait) {
			n.fail(nodeClosed, errClosed)
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
	n.watcher.changed()
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
		n.watcher.lost(why)
	}
}

// hangUp ends a pipeline whose reader has returned: what is in flight gets an
// answer, the outcome of lock requests among it is unknown, releases are owed, and the
// connection goes back to its pool once reader and writer have let go of it.
func (n *node) hangUp(p *pipeline, why error) {
	n.mu.Lock()
	n.state, n.line, n.shunned = nodeConnecting, nil, false
	n.failed = p.mute || p.misled != nil
	n.watcher.ended()
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
			q.token.marks[q.index] |= markUnheard
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
	p.wire.GiveBack()
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
		_ = p.abort(errClosed)
	}
}
