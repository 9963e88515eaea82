package node

import (
	"context"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
)

// connect makes a connection and puts it to work. Only then do requests flow.
func (n *Node) connect() (*pipeline, error) {
	p, err := n.prepare(n.ctx)
	if err == nil && !n.putToWork(p) {
		p.discard()
		return nil, ErrClosed
	}
	return p, err
}

// prepare borrows a connection and makes it ready.
func (n *Node) prepare(ctx context.Context) (*pipeline, error) {
	limit := n.ConnectTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	n.mu.Lock()
	n.connects++
	n.mu.Unlock()
	w, err := n.Source.Borrow(ctx)
	if err != nil {
		return nil, conn.Explain(err)
	}
	p := &pipeline{node: n, wire: w, writerDone: make(chan struct{})}
	stop := context.AfterFunc(ctx, w.Abort)
	p.dialect, err = n.handshake(ctx, w, n.Source)
	if !stop() && err == nil {
		err = fmt.Errorf("handshake took over %v", limit)
	}
	if err != nil {
		p.discard()
		return nil, w.Explain(err)
	}
	return p, nil
}

// discard ends a connection that nobody uses, and that the pool is not to hand out again.
func (p *pipeline) discard() {
	p.wire.Abort()
	p.wire.GiveBack()
}

// putToWork puts a prepared connection to work; false if the node was killed.
func (n *Node) putToWork(p *pipeline) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return false
	}
	if !n.resumes || n.lost {
		n.Observer.Up()
	}
	n.state, n.down, n.lost, n.failed, n.resumes = nodeUp, nil, false, false, false
	n.Readiness.add(1)
	waiting := n.queue
	n.queue = requestQueue{}
	n.start(p)
	n.sendReleases() // First of all.
	n.queue.append(waiting)
	if n.releases.owed == 0 {
		n.settle()
	}
	return true
}

// start has a connection serve. n.mu is held.
func (n *Node) start(p *pipeline) {
	p.lastReply = time.Now()
	p.watchdog = time.AfterFunc(WatchInterval, p.watch)
	p.sleep(p.lastReply, WatchInterval)
	n.pipeline, n.forgot = p, false
	n.renewal.begin(n.Age, p.lastReply)
	go p.write()
}

// stopWaitingForPool notes that what the pool handed out does not let go of the node, so that no call
// waits for the next connection.
func (n *Node) stopWaitingForPool() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == nodeConnecting {
		n.failed = true
		n.Readiness.add(0)
	}
}

// LookAgain has the connection be made anew now, as others find another server at the address. It may be called as often
// as one likes.
func (n *Node) LookAgain() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == nodeUp && n.renewal.ask(time.Now()) {
		n.pipeline.dozing = false // Or the next request would put it off.
		n.pipeline.watchdog.Reset(0)
	}
}

// renew makes the connection anew if that is due. Of all nodes one does so at a time: the requests of one wait for a
// moment, and must find the others. n.mu is held.
func (n *Node) renew(now time.Time) {
	if n.renewal.wait(now) > 0 || n.closing || !n.Readiness.renewing.CompareAndSwap(false, true) {
		return
	}
	old := n.pipeline
	ctx, cancel := context.WithCancel(n.ctx)
	old.endRenewal = cancel
	n.renewal.due = now.Add(renewPause) // Unless another connection serves by then.
	n.aside.Go(func() {
		defer cancel()
		defer n.Readiness.renewing.Store(false)
		n.replace(ctx, old)
	})
}

// replace makes a connection that takes over from the old one. A pool that has none to give is not asked: it would make
// the application wait, and a call of it that hangs has a place that a broken connection may need.
func (n *Node) replace(ctx context.Context, old *pipeline) {
	if n.Source.IsSpent() || n.Source.Stuck() > 0 {
		return
	}
	n.Source.Fresh.Store(true)
	next, err := n.prepare(ctx)
	if err == nil && !n.handOver(ctx, old, next) {
		next.discard()
	}
}

// handOver has the next connection follow the old one, and says whether it does. What the old server has refused so far
// is sent to it once more: the new one may have nothing to do with it.
func (n *Node) handOver(ctx context.Context, old, next *pipeline) bool {
	ctx, cancel := context.WithTimeout(ctx, n.Timeout)
	defer cancel()
	n.mu.Lock()
	defer n.mu.Unlock()
	if old.over || n.closing {
		return false
	}
	n.sendOpen()
	old.successor, old.last = next, &Request{Task: &Task{Limit: n.Timeout}}
	n.push(old.last)
	n.mu.Unlock()
	<-ctx.Done() // Also when the old one ends, in whatever way.
	n.mu.Lock()
	if !old.replaced {
		old.successor, old.last, old.holds = nil, nil, false
		n.work.Broadcast()
	}
	return old.replaced
}

// takeOver has the next connection serve, if there is one and the answer to q was the last of p. n.mu is held.
func (n *Node) takeOver(p *pipeline, q *Request) bool {
	if q != p.last {
		return false
	}
	p.replaced = true
	p.endLocked(nil)
	n.start(p.successor)
	return true
}

// serve reads from a connection, and from those that follow it. It returns the last one, and why that has ended.
func (n *Node) serve(p *pipeline) (*pipeline, error) {
	for {
		err := p.read()
		if !p.replaced {
			return p, err
		}
		old := p
		n.aside.Go(func() {
			<-old.writerDone
			old.discard()
		})
		n.subscription.drop()
		p = p.successor
	}
}
