package node

import (
	"context"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
)

// connect makes a connection and puts it to work. Only then do requests flow.
func (n *Node) connect() (*pipeline, error) {
	w, dialect, err := n.prepare(n.ctx)
	if err != nil {
		return nil, err
	}
	p := n.newPipeline(w, dialect)
	if !n.putToWork(p) {
		w.Abort()
		w.GiveBack()
		return nil, ErrClosed
	}
	return p, nil
}

// prepare borrows a connection and makes it ready.
func (n *Node) prepare(ctx context.Context) (*conn.Wire, ConnDialect, error) {
	limit := n.ConnectTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	n.mu.Lock()
	if n.connects++; n.connects == 1 {
		n.began = time.Now()
	}
	n.mu.Unlock()
	w, err := n.Source.Borrow(ctx)
	if err != nil {
		return nil, nil, conn.Explain(err)
	}
	stop := context.AfterFunc(ctx, w.Abort)
	dialect, err := n.handshake(ctx, w, n.Source)
	if !stop() && err == nil {
		err = fmt.Errorf("handshake took over %v", limit)
	}
	if err != nil {
		w.Abort()
		w.GiveBack()
		return nil, nil, w.Explain(err)
	}
	return w, dialect, nil
}

// putToWork puts a prepared connection to work; false if the node was killed.
func (n *Node) putToWork(p *pipeline) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return false
	}
	n.state, n.down, n.lost, n.failed, n.settledFirst = nodeUp, nil, false, false, true
	n.Readiness.add(1)
	n.Observer.Up()
	waiting := n.queue
	n.queue = requestQueue{}
	n.start(p)
	n.sendReleases() // First of all.
	if n.misses.open.Load() {
		n.push(n.sign(p.lastReply))
	}
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
	n.pipeline, n.forgot = p, false
	n.setRenewal()
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
