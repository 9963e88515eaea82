package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// minTombstone is the least life of a tombstone. What a broken connection
	// delivers after it has expired can set a key again, for one ttl.
	minTombstone = time.Minute

	// maxStuck is how many borrowings may be stuck, that is, have not ended in time
	// and are waited for by nobody: each is a goroutine in a Pool that ignores
	// its context. Beyond it a further one is risked only every stuckPause. Not
	// never: those that are stuck may be stuck for good, and the node has to
	// come back when the network does.
	maxStuck   = 64
	stuckPause = 30 * time.Second

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

var (
	errNoConn = errors.New("the pool returned no connection and no error")
	errStuck  = fmt.Errorf("%d calls of the pool's GetContext have not returned", maxStuck)
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
	if n.stuck >= maxStuck && time.Since(n.borrowed) < stuckPause {
		n.mu.Unlock()
		return nil, errStuck
	}
	n.stuck++
	n.borrowed = time.Now()
	n.mu.Unlock()
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
		return nil, fmt.Errorf("no connection from the pool within %v", connectLimit(n.timeout))
	}
}

// abortable returns an error if a connection behind the pool's cannot be aborted,
// which it must. The empty command that shows it does no I/O.
func abortable(ctx context.Context, conn *wire) error {
	if _, err := redis.DoContext(conn.Conn, ctx, ""); err != nil {
		return fmt.Errorf("the pool's connection must implement redis.ConnWithContext: %w", err)
	}
	return nil
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
