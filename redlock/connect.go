package redlock

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// minTombstone is the least life of a tombstone. What a broken connection
	// delivers after it has expired can set a key again, for one ttl.
	minTombstone = time.Minute

	// cleanBatch bounds the keys of one clean-up script.
	cleanBatch = 500
)

// connect borrows a connection, prepares it and settles the debts on it. Only
// then do requests flow.
func (n *node) connect() (*pipeline, error) {
	limit := connectLimit(n.timeout)
	ctx, cancel := context.WithTimeout(n.ctx, limit)
	defer cancel()
	n.mu.Lock()
	n.connects++
	n.mu.Unlock()
	conn, err := n.borrow(ctx)
	if err != nil {
		return nil, err
	}
	w := newWire(conn)
	stop := context.AfterFunc(ctx, w.abort)
	err = n.handshake(ctx, w)
	if !stop() && err == nil {
		err = fmt.Errorf("handshake took over %v", limit)
	}
	if err != nil {
		w.abort()
		w.giveBack()
		return nil, err
	}
	p := n.answer(w)
	if p == nil {
		w.abort()
		w.giveBack()
		return nil, ErrClosed
	}
	return p, nil
}

// answer puts a prepared connection to work; nil if the node was killed.
func (n *node) answer(w *wire) *pipeline {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return nil
	}
	p := &pipeline{node: n, wire: w, gen: n.gen, guard: n.running, writerDone: make(chan struct{}), lastReply: time.Now()}
	p.watchdog = time.AfterFunc(watchInterval, p.watch)
	n.state, n.line, n.down, n.lost, n.forgot = nodeUp, p, nil, false, false
	n.sayBye()
	n.events.send(n.ctx, Event{Kind: EventNodeUp, Node: n.name})
	go p.write()
	return p
}

// handshake loads the scripts and pays the debts. Each attempt is a new
// generation, so that what an abandoned one still delivers is recognised.
func (n *node) handshake(ctx context.Context, conn *wire) error {
	if err := conn.Err(); err != nil {
		return err // A Pool around redigo's Get has no other way to say so.
	}
	if err := abortable(ctx, conn); err != nil {
		return err
	}
	n.mu.Lock()
	n.gen++
	n.forget()
	gen, life := n.gen, time.Duration(0)
	debts, unknown := n.debts, n.unknown
	if unknown > 0 {
		life = max(n.life, minTombstone)
	}
	n.mu.Unlock()

	running, err := n.learn(ctx, conn)
	if err != nil {
		return err
	}
	scripts := handshakeScripts
	if running != nil {
		scripts = slices.DeleteFunc(slices.Clone(scripts), func(s *script) bool { return s.session })
	}
	for _, s := range scripts {
		if err := conn.Send("SCRIPT", "LOAD", s.sourceArg); err != nil {
			return err
		}
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	for _, s := range scripts {
		if _, err := conn.receive(left(ctx)); isReply(err) {
			return fmt.Errorf("loading the %s script: %w", s.name, err)
		} else if err != nil {
			return fmt.Errorf("handshake: %w", err)
		}
	}
	n.running = running
	// Without debts there is no clean-up: no lock request can be outstanding then.
	return n.cleanAll(ctx, conn, gen, life, debts, unknown)
}

// left is the time that ctx, which has a deadline, still gives: never 0, which
// would be no limit.
func left(ctx context.Context) time.Duration {
	d, _ := ctx.Deadline()
	return max(time.Until(d), 1)
}
