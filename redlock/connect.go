package redlock

import (
	"context"
	"errors"
	"fmt"
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
		err = fmt.Errorf("handshake took over %v", limit)
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
		n.push(&request{task: &task{kind: byeKind, limit: n.timeout}})
	}
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
	n.connects++
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
		return nil, fmt.Errorf("no connection from the pool within %v", silence(n.timeout))
	}
}

// handshake loads the scripts and pays the debts. Each attempt is a new
// generation, so that what an abandoned one still delivers is recognised.
func (n *node) handshake(ctx context.Context, conn *wire) error {
	// An empty command does no I/O but shows whether a connection behind the
	// pool's can be aborted, which it must.
	if _, err := redis.DoContext(conn.Conn, ctx, ""); err != nil {
		return fmt.Errorf("the pool's connection must implement redis.ConnWithContext: %w", err)
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
		if _, err := conn.receive(left(ctx)); isReply(err) {
			return fmt.Errorf("loading the %s script: %w", s.name, err)
		} else if err != nil {
			return fmt.Errorf("handshake: %w", err)
		}
	}
	// No clean-up for debts alone would leave a broken connection's late lock
	// requests unrefused; no debts, none can be outstanding.
	for paid := 0; paid < len(debts); {
		m, err := n.clean(ctx, conn, gen, life, debts[paid:])
		if err != nil {
			return fmt.Errorf("clean-up: %w", err)
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
			keys, tokens = append(keys, k), append(tokens, debts[m].claim.token)
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
	n.events.send(n.ctx, Event{Kind: EventNodeCleaned, Node: n.name, Unknown: unknown, Cleaned: m})
}

// left is the time that ctx, which has a deadline, still gives: never 0, which
// would be no limit.
func left(ctx context.Context) time.Duration {
	d, _ := ctx.Deadline()
	return max(time.Until(d), 1)
}
