package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
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

// A nodeState is where a node's connection is in its life; docs/algorithm.md
// has the diagram.
type nodeState uint8

const (
	nodeIdle       nodeState = iota // nobody has needed it yet
	nodeConnecting                  // borrowing, handshake, clean-up: requests queue
	nodeUp                          // requests flow
	nodeBackoff                     // waiting to try again: requests fail at once
	nodeClosed
)

const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second

	// minTombstone is the least life of a tombstone. What a broken connection
	// delivers after it has expired can set a key again, for one ttl.
	minTombstone = time.Minute

	// maxStuck bounds the borrowings that did not end in time and are waited for
	// by nobody. Each is a goroutine in a Pool that ignores its context.
	maxStuck = 32

	// cleanBatch bounds the keys of one clean-up script.
	cleanBatch = 500
)

// A debt is a token whose keys must be removed from the node before anything
// else is asked of it: the outcome of its lock request is unknown, or its
// release has not been confirmed.
type debt struct {
	claim *claim
	index int
}

// A node is one Redis master with the pipeline to it. It is safe for concurrent
// use. Its goroutine starts with the first request and ends with close.
type node struct {
	name    string
	pool    Pool
	timeout time.Duration // the Redlock's node timeout
	events  *dispatcher

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
	line     *pipeline    // while up
	gen      int64
	closing  bool
	lost     bool // a loss was reported and no return yet
	stuck    int  // calls of the pool that have not returned
	debts    []debt
	unknown  int           // lock requests among the debts whose outcome is unknown
	life     time.Duration // the longest ttl among them
	cleaned  int64         // counter: keys' owners settled by clean-ups
	unknowns int64         // counter: unknown outcomes ever
}

func newNode(n Node, session string, timeout time.Duration, events *dispatcher) *node {
	nd := &node{name: n.Name, pool: n.Pool, timeout: timeout, events: events, stone: session, done: make(chan struct{})}
	nd.work.L = &nd.mu
	nd.ctx, nd.cancel = context.WithCancel(context.Background())
	return nd
}

// enqueue hands a request to the node. An error is the node's vote; the
// request was not taken then. A release is always taken: if it cannot be sent
// it becomes a debt, and the error is only for the vote.
func (n *node) enqueue(q *request) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if q.kind == releaseKind {
		q.claim.marks[q.index] |= markReleased
	}
	switch {
	case n.state == nodeClosed || n.closing && q.kind != releaseKind:
		return ErrClosed
	case n.state == nodeBackoff:
		n.owe(q)
		return n.down
	case q.kind != releaseKind && n.queue.len+n.flight.len >= maxBacklog:
		return errBacklog
	case n.state == nodeIdle:
		n.state = nodeConnecting
		go n.run()
	}
	n.push(q)
	return nil
}

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
		_ = n.enqueue(&request{kind: releaseKind, cmd: c.unlockCommand(), claim: c, index: index, limit: n.timeout})
	}
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

// owe remembers what a request that will not be answered may have left on the
// node. n.mu is held.
func (n *node) owe(q *request) {
	switch q.kind {
	case lockKind, releaseKind:
		c := q.claim
		if c.marks[q.index]&markSent == 0 || c.marks[q.index]&markOwed != 0 {
			return
		}
		c.marks[q.index] |= markOwed
		n.debts = append(n.debts, debt{c, q.index})
	case askKind, pingKind, byeKind:
	}
}

// refused handles an error reply, and says whether the request was sent again.
// n.mu is held.
func (n *node) refused(q *request, err error) (error, bool) { //nolint:revive // The error is a result, not a failure.
	if strings.HasPrefix(err.Error(), "NOSCRIPT") && !q.eval {
		// SCRIPT FLUSH, or another server behind the same address. A lock may be
		// sent again only while somebody wants it, and only ahead of its release:
		// behind it, it would leave an orphan.
		if q.kind == lockKind && (q.voter.unwanted() || q.claim.marks[q.index]&markReleased != 0) {
			q.claim.marks[q.index] &^= markSent
			return err, false
		}
		q.eval = true
		n.push(q)
		return nil, true
	}
	if q.kind == releaseKind {
		n.retry(q)
	}
	return err, false
}

// retry sends a release again that was answered with an error (BUSY, LOADING,
// a full disk): the key may still be there. It gives up after the key's life.
// n.mu is held.
func (n *node) retry(q *request) {
	wait := min(100*time.Millisecond<<min(q.tries, 10), maxBackoff)
	if time.Duration(q.tries)*wait > time.Duration(q.claim.life.Load()) {
		return
	}
	again := &request{kind: releaseKind, cmd: q.cmd, claim: q.claim, index: q.index, limit: q.limit, tries: q.tries + 1}
	time.AfterFunc(wait, func() { _ = n.enqueue(again) })
}

// run is the node's goroutine: it keeps the connection up until close.
func (n *node) run() {
	defer close(n.done)
	backoff := minBackoff
	for {
		p, err := n.connect()
		if err == nil {
			began := time.Now()
			err = p.read()
			n.hangUp(p, err)
			if err == nil || n.mayEnd() {
				n.fail(nodeClosed, ErrClosed)
				return
			}
			// A connection that did not last counts as an attempt that failed,
			// or a server that accepts and hangs up would be dialled in a loop.
			if time.Since(began) >= time.Second {
				backoff = minBackoff
				continue
			}
		}
		if !n.rest(err, backoff) {
			n.fail(nodeClosed, ErrClosed)
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// rest waits before the next attempt to connect; false when the node is being
// closed instead.
func (n *node) rest(why error, backoff time.Duration) bool {
	n.fail(nodeBackoff, fmt.Errorf("redlock: not connected: %w", why))
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
	return n.closing && len(n.debts) == 0 && n.queue.len == 0
}

// fail enters a state in which nothing can be sent, and answers what is queued.
func (n *node) fail(s nodeState, why error) {
	n.mu.Lock()
	n.state, n.down = s, why
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
		q.deliver(outcome{err: why})
	}
}

// reportLoss sends one event per loss. n.mu is held.
func (n *node) reportLoss(why error) {
	if !n.lost && !n.closing {
		n.lost = true
		n.events.send(context.Background(), Event{Kind: EventNodeDown, Node: n.name, Err: why})
	}
}

// connect borrows a connection, prepares it and settles the debts on it. Only
// then do requests flow. It is bounded by the time after which a silent
// connection counts as broken.
func (n *node) connect() (*pipeline, error) {
	limit := silence(n.timeout)
	ctx, cancel := context.WithTimeout(n.ctx, limit)
	defer cancel()
	conn, err := n.borrow(ctx)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn}
	stop := context.AfterFunc(ctx, w.abort)
	err = n.handshake(ctx, w)
	if !stop() && err == nil {
		err = fmt.Errorf("redlock: handshake took over %v", limit)
	}
	if err != nil {
		w.abort()
		w.giveBack()
		return nil, err
	}
	return n.answer(w), nil
}

// answer puts a prepared connection to work.
func (n *node) answer(w *wire) *pipeline {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := &pipeline{node: n, wire: w, gen: n.gen, writerDone: make(chan struct{}), lastReply: time.Now()}
	p.watchdog = time.AfterFunc(watchInterval, p.watch)
	n.state, n.line, n.down, n.lost = nodeUp, p, nil, false
	if n.closing {
		n.push(&request{kind: byeKind, limit: n.timeout})
	}
	n.events.send(context.Background(), Event{Kind: EventNodeUp, Node: n.name})
	go p.write()
	return p
}

// hangUp ends a pipeline whose reader has returned: what is in flight gets an
// answer, lock requests among it become debts of unknown outcome, and the
// connection goes back to its pool once reader and writer have let go of it.
func (n *node) hangUp(p *pipeline, why error) {
	n.mu.Lock()
	n.state, n.line = nodeConnecting, nil
	if why != nil {
		n.reportLoss(why)
	}
	var failed []*request
	for q := n.flight.pop(); q != nil; q = n.flight.pop() {
		n.owe(q)
		if q.kind == lockKind {
			n.unknown++
			n.unknowns++
			n.life = max(n.life, time.Duration(q.claim.life.Load()))
		}
		failed = append(failed, q)
	}
	n.mu.Unlock()
	for _, q := range failed {
		q.deliver(outcome{err: why})
	}
	<-p.writerDone
	p.wire.giveBack()
}

var (
	errNoConn = errors.New("redlock: the pool returned no connection and no error")
	errStuck  = fmt.Errorf("redlock: %d earlier calls of the pool's GetContext have not returned", maxStuck)
)

// borrow gets a connection from the pool but does not wait longer than ctx,
// whatever the pool does: a plain Dial, an AUTH in it or a TestOnBorrow may
// hang. What such a call returns in the end is given back.
func (n *node) borrow(ctx context.Context) (redis.Conn, error) {
	type result struct {
		conn redis.Conn
		err  error
	}
	n.mu.Lock()
	stuck := n.stuck
	n.stuck++
	n.mu.Unlock()
	if stuck >= maxStuck {
		n.mu.Lock()
		n.stuck--
		n.mu.Unlock()
		return nil, errStuck
	}
	got := make(chan result)
	go func() {
		conn, err := n.pool.GetContext(ctx)
		n.mu.Lock()
		n.stuck--
		n.mu.Unlock()
		if conn == nil && err == nil {
			err = errNoConn
		}
		select {
		case got <- result{conn, err}:
		case <-ctx.Done():
			if conn != nil {
				_ = conn.Close()
			}
		}
	}()
	select {
	case res := <-got:
		if res.err != nil && res.conn != nil {
			_ = res.conn.Close() // redigo's error connection.
		}
		return res.conn, res.err
	case <-ctx.Done():
		return nil, fmt.Errorf("redlock: no connection from the pool within %v", silence(n.timeout))
	}
}

// handshake loads the scripts and pays the debts. Each attempt is a new
// generation, so that what an abandoned one still delivers is recognised.
func (n *node) handshake(ctx context.Context, conn *wire) error {
	// An empty command does no I/O but shows whether a connection behind the
	// pool's can be aborted, which it must.
	if _, err := redis.DoContext(conn.Conn, ctx, ""); err != nil {
		return fmt.Errorf("redlock: the pool's connection must implement redis.ConnWithContext: %w", err)
	}
	n.mu.Lock()
	n.gen++
	gen, life := n.gen, time.Duration(0)
	debts, unknown := n.debts, n.unknown
	if unknown > 0 {
		life = max(n.life, minTombstone)
	}
	n.mu.Unlock()

	for _, s := range handshakeScripts {
		if err := conn.Send("SCRIPT", "LOAD", s.sourceArg); err != nil {
			return err
		}
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	for _, s := range handshakeScripts {
		if _, err := conn.receive(left(ctx)); err != nil {
			return fmt.Errorf("redlock: loading the %s script: %w", s.name, err)
		}
	}
	// No clean-up for debts alone would leave a broken connection's late lock
	// requests unrefused; no debts, none can be outstanding.
	for paid := 0; paid < len(debts); {
		m, err := n.clean(ctx, conn, gen, life, debts[paid:])
		if err != nil {
			return fmt.Errorf("redlock: clean-up: %w", err)
		}
		paid += m
	}
	if len(debts) > 0 {
		n.paid(len(debts), unknown)
	}
	return nil
}

// clean settles a first part of debts and returns how many.
func (n *node) clean(ctx context.Context, conn *wire, gen int64, life time.Duration, debts []debt) (int, error) {
	var keys, tokens []any
	m := 0
	for m < len(debts) && (m == 0 || len(keys)+len(debts[m].claim.keys) <= cleanBatch) {
		for _, k := range debts[m].claim.keys {
			keys, tokens = append(keys, k), append(tokens, debts[m].claim.boxed)
		}
		m++
	}
	args := append([]any{cleanScript.sourceArg, len(keys) + 1}, keys...)
	args = append(args, n.stone, gen, serverMillis(life))
	args = append(args, tokens...)
	// EVAL, not EVALSHA: the script cache may be flushed between two commands.
	if err := conn.Send("EVAL", args...); err != nil {
		return 0, err
	}
	if err := conn.Flush(); err != nil {
		return 0, err
	}
	reply, err := conn.receive(left(ctx))
	if err != nil {
		return 0, err
	}
	return m, cleanScript.decode(reply).err
}

// paid drops the first m debts and reports them. More may have come up since
// they were read: a release that failed while the node was connecting.
func (n *node) paid(m, unknown int) {
	n.mu.Lock()
	for _, d := range n.debts[:m] {
		m := &d.claim.marks[d.index]
		*m &^= markSent | markOwed
		if *m&markReleased != 0 {
			*m |= markConfirmed
		}
	}
	n.debts = append([]debt(nil), n.debts[m:]...)
	n.unknown -= unknown
	if n.unknown == 0 {
		n.life = 0
	}
	n.cleaned += int64(m)
	n.mu.Unlock()
	n.events.send(context.Background(), Event{Kind: EventNodeCleaned, Node: n.name, Unknown: unknown, Cleaned: m})
}

// left is the time that ctx, which has a deadline, still gives: never 0, which
// would be no limit.
func left(ctx context.Context) time.Duration {
	d, _ := ctx.Deadline()
	return max(time.Until(d), 1)
}

// close refuses new requests, lets what is queued and in flight end, and ends
// the connection. Bounded by ctx and by the node timeout, as a hung node would
// otherwise hold it up; what it has left then stays until its ttl.
func (n *node) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	n.mu.Lock()
	first := !n.closing
	n.closing = true
	switch {
	case n.state == nodeIdle:
		n.state = nodeClosed
		close(n.done)
	case first && n.state == nodeUp:
		n.push(&request{kind: byeKind, limit: n.timeout})
	case n.state != nodeUp && len(n.debts) == 0 && n.queue.len == 0:
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

// kill ends the node's goroutine without regard for what is outstanding.
func (n *node) kill() {
	n.cancel()
	n.mu.Lock()
	p := n.line
	n.mu.Unlock()
	if p != nil {
		p.abort(ErrClosed)
	}
}
