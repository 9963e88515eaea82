package node

import (
	"context"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
)

// connect borrows a connection and prepares it. Only then do requests flow.
func (n *Node) connect() (*pipeline, error) {
	limit := n.ConnectTimeout
	ctx, cancel := context.WithTimeout(n.ctx, limit)
	defer cancel()
	n.mu.Lock()
	n.connects++
	n.mu.Unlock()
	w, err := n.Source.Borrow(ctx)
	if err != nil {
		return nil, conn.Explain(err)
	}
	stop := context.AfterFunc(ctx, w.Abort)
	dialect, err := n.handshake(ctx, w, n.Source)
	if !stop() && err == nil {
		err = fmt.Errorf("handshake took over %v", limit)
	}
	if err != nil {
		w.Abort()
		w.GiveBack()
		return nil, w.Explain(err)
	}
	p := n.putToWork(w, dialect)
	if p == nil {
		w.Abort()
		w.GiveBack()
		return nil, ErrClosed
	}
	return p, nil
}

// putToWork puts a prepared connection to work; nil if the node was killed.
func (n *Node) putToWork(w *conn.Wire, dialect ConnDialect) *pipeline {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return nil
	}
	p := &pipeline{node: n, wire: w, dialect: dialect, writerDone: make(chan struct{}), lastReply: time.Now()}
	p.watchdog = time.AfterFunc(WatchInterval, p.watch)
	n.state, n.pipeline, n.down, n.lost, n.forgot = nodeUp, p, nil, false, false
	n.failed = false
	n.Readiness.add(1)
	n.Observer.Up()
	waiting := n.queue
	n.queue = requestQueue{}
	n.sendReleases() // First of all.
	if n.misses.open.Load() {
		n.push(n.sign(p.lastReply))
	}
	n.queue.append(waiting)
	if n.releases.owed == 0 {
		n.settle()
	}
	go p.write()
	return p
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
