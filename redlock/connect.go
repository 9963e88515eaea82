package redlock

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// connect borrows a connection and prepares it. Only then do requests flow.
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
	unknown, err := n.handshake(ctx, w)
	if !stop() && err == nil {
		err = fmt.Errorf("handshake took over %v", limit)
	}
	if err != nil {
		w.abort()
		w.giveBack()
		return nil, err
	}
	p := n.answer(w, unknown)
	if p == nil {
		w.abort()
		w.giveBack()
		return nil, ErrClosed
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
	p := &pipeline{node: n, wire: w, gen: n.gen, guard: n.running, writerDone: make(chan struct{}), lastReply: time.Now()}
	p.watchdog = time.AfterFunc(watchInterval, p.watch)
	n.state, n.line, n.down, n.lost, n.forgot = nodeUp, p, nil, false, false
	n.events.send(n.ctx, Event{Kind: EventNodeUp, Node: n.name})
	p.settles.begin(n, unknown, n.sendOwed())
	n.sayBye()
	go p.write()
	return p
}

// handshake loads the scripts, and puts up the tombstone if the outcome of requests is
// unknown, of how many it returns. Each attempt is a new generation, so that what an
// abandoned one still delivers is recognised.
func (n *node) handshake(ctx context.Context, conn *wire) (unknown int, err error) {
	if err := conn.Err(); err != nil {
		return 0, err // A Pool around redigo's Get has no other way to say so.
	}
	if err := abortable(ctx, conn); err != nil {
		return 0, err
	}
	n.mu.Lock()
	n.gen++
	n.forget()
	gen, life, unknown := n.gen, n.life, n.unknown
	n.mu.Unlock()

	running, err := n.learn(ctx, conn)
	if err != nil {
		return 0, err
	}
	if unknown > 0 {
		if err := n.sendTombstone(conn, gen, life); err != nil {
			return 0, err
		}
	}
	if err := n.loadScripts(ctx, conn, running, unknown > 0); err != nil {
		return 0, err
	}
	n.running = running
	n.mu.Lock()
	n.unknown, n.life = 0, 0
	n.mu.Unlock()
	return unknown, nil
}

// loadScripts has the server know the scripts. With entombed it reads the answer to a
// tombstone first, which was sent ahead of them.
func (n *node) loadScripts(ctx context.Context, conn *wire, running *runGuard, entombed bool) error {
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
	if entombed {
		if err := n.receiveTombstone(ctx, conn); err != nil {
			return err
		}
	}
	for _, s := range scripts {
		if _, err := conn.receive(left(ctx)); isReply(err) {
			return fmt.Errorf("loading the %s script: %w", s.name, err)
		} else if err != nil {
			return fmt.Errorf("handshake: %w", err)
		}
	}
	return nil
}

// left is the time that ctx, which has a deadline, still gives: never 0, which
// would be no limit.
func left(ctx context.Context) time.Duration {
	d, _ := ctx.Deadline()
	return max(time.Until(d), 1)
}
