package redlock

import (
	"context"
	"fmt"
	"time"
)

// connect borrows a connection and prepares it. Only then do requests flow.
func (n *node) connect() (*pipeline, error) {
	limit := n.connectLimit
	ctx, cancel := context.WithTimeout(n.ctx, limit)
	defer cancel()
	n.mu.Lock()
	n.connects++
	n.mu.Unlock()
	conn, err := n.borrow(ctx)
	if err != nil {
		return nil, likely(err, nil)
	}
	w := newWire(conn)
	stop := context.AfterFunc(ctx, w.abort)
	unknown, err := n.handshake(ctx, w)
	if !stop() && err == nil {
		err = fmt.Errorf("handshake took over %v", limit)
	}
	if err != nil {
		w.abort()
		w.giveBack()
		return nil, likely(err, w.socket)
	}
	p := n.answer(w, unknown)
	if p == nil {
		w.abort()
		w.giveBack()
		return nil, errClosed
	}
	return p, nil
}

// answer puts a prepared connection to work, on which a tombstone refuses so many
// requests of unknown outcome; nil if the node was killed.
func (n *node) answer(w *wire, unknown int) *pipeline {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return nil
	}
	p := &pipeline{node: n, wire: w, gen: n.gen, dialect: n.spoken, writerDone: make(chan struct{}), lastReply: time.Now()}
	p.watchdog = time.AfterFunc(watchInterval, p.watch)
	n.state, n.line, n.down, n.lost, n.forgot = nodeUp, p, nil, false, false
	n.failed = false
	n.watcher.up()
	p.settles.begin(n, unknown, n.sendOwed())
	n.sayBye()
	go p.write()
	return p
}

// left is the time that ctx, which has a deadline, still gives: never 0, which
// would be no limit.
func left(ctx context.Context) time.Duration {
	d, _ := ctx.Deadline()
	return max(time.Until(d), 1)
}
