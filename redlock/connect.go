package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	p := &pipeline{node: n, wire: w, gen: n.gen, writerDone: make(chan struct{}), lastReply: time.Now()}
	p.watchdog = time.AfterFunc(watchInterval, p.watch)
	n.state, n.line, n.down, n.lost = nodeUp, p, nil, false
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
	if err := conn.Err(); err != nil {
		return err // A Pool around redigo's Get has no other way to say so.
	}
	// An empty command does no I/O but shows whether a connection behind the
	// pool's can be aborted, which it must.
	if _, err := redis.DoContext(conn.Conn, ctx, ""); err != nil {
		return fmt.Errorf("the pool's connection must implement redis.ConnWithContext: %w", err)
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
	// Without debts there is no clean-up: no lock request can be outstanding then.
	return n.cleanAll(ctx, conn, gen, life, debts, unknown)
}

// cleanAll settles debts, batch by batch: what has been settled when the time
// runs out stays so, and the next connection goes on from there.
func (n *node) cleanAll(ctx context.Context, conn *wire, gen int64, life time.Duration, debts []debt, unknown int) error {
	e := Event{Kind: EventNodeCleaned, Node: n.name}
	defer func() {
		if e.Cleaned > 0 {
			n.events.send(ctx, e)
		}
	}()
	single := false
	for len(debts) > 0 {
		m := batch(debts)
		if single {
			m = 1
		}
		found, err := n.clean(ctx, conn, gen, life, debts[:m])
		switch forbidden := isForbiddenKey(err); {
		case forbidden && m > 1:
			single = true // To find out which.
			continue
		case forbidden:
			// Its lock request and its release are refused in the same way. Nothing can
			// be done, and it must not keep the node from everybody else.
			found = strings.Repeat("0", len(debts[0].claim.keys))
		case err != nil:
			n.unpaid(debts[:m], err)
			return fmt.Errorf("clean-up: %w", err)
		}
		if debts = debts[m:]; len(debts) == 0 {
			e.Unknown = unknown // The tombstone has to be put up until the last is settled.
		}
		e.Cleaned += m
		n.paid(m, e.Unknown, found)
	}
	return nil
}

// isForbiddenKey reports whether the server refused a command because of a key
// in it, by the wording of Redis 6 or that of later ones and Valkey. That the user
// may not run the command at all is another matter.
func isForbiddenKey(err error) bool {
	if errorCode(err) != "NOPERM" {
		return false
	}
	s := err.Error()
	return strings.Contains(s, "to access a key") || strings.Contains(s, "to access one of the keys")
}

// forget drops the debts of which nothing can be left, and of which nothing can
// arrive any more that a tombstone would still refuse. n.mu is held.
func (n *node) forget() {
	now := time.Since(n.epoch)
	debts := n.debts[:0:0]
	for _, d := range n.debts {
		if now < d.ends {
			debts = append(debts, d)
			continue
		}
		d.claim.marks[d.index] &^= markSent | markOwed
	}
	n.debts = debts
	if len(debts) == 0 {
		n.unknown, n.life = 0, 0
	}
}

// batch returns how many of the debts, at least one, one script is to settle.
func batch(debts []debt) int {
	keys, m := 0, 0
	for m < len(debts) && (m == 0 || keys+len(debts[m].claim.keys) <= cleanBatch) {
		keys += len(debts[m].claim.keys)
		m++
	}
	return m
}

// clean settles debts, and returns a '1' for every key that it removed, '0' for
// the others, in order.
func (n *node) clean(ctx context.Context, conn *wire, gen int64, life time.Duration, debts []debt) (found string, err error) {
	var keys, tokens, keeps []any
	now := time.Now()
	for _, d := range debts {
		keep := d.claim.leaveMillis(now)
		for _, k := range d.claim.keys {
			keys, tokens, keeps = append(keys, k), append(tokens, d.claim.token), append(keeps, keep)
		}
	}
	args := append([]any{cleanScript.sourceArg, len(keys) + 1}, keys...)
	args = append(args, n.stone, gen, serverMillis(life))
	args = append(args, tokens...)
	args = append(args, keeps...)
	// EVAL, not EVALSHA: the script cache may be flushed between two commands.
	if err = conn.Send("EVAL", args...); err != nil {
		return "", err
	}
	if err = conn.Flush(); err != nil {
		return "", err
	}
	reply, err := conn.receive(left(ctx))
	if err != nil {
		return "", err
	}
	out := cleanScript.decode(reply)
	if out.err == nil && len(out.value) != len(keys) {
		out = unexpected("clean", reply)
	}
	return out.value, out.err
}

// paid drops the first m debts, of whose keys found says which were removed, and
// of which unknown were lock requests. More may have come up since they were
// read: a release that failed while the node was connecting.
func (n *node) paid(m, unknown int, found string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.debts[:m] {
		keys := len(d.claim.keys)
		d.claim.marks[d.index] &^= markSent | markOwed
		if d.claim.marks[d.index]&markReleased != 0 {
			out := outcome{stance: no}
			if !strings.Contains(found[:keys], "0") {
				out.stance = yes
			}
			d.claim.releasedLocked(d.index, out)
		}
		found = found[keys:]
	}
	n.debts = append([]debt(nil), n.debts[m:]...)
	n.unknown -= unknown
	if n.unknown == 0 {
		n.life = 0
	}
	n.cleaned += int64(m)
}

// unpaid notes that a clean-up of the debts failed with err: unless the server
// refused it, it may have been carried out.
func (n *node) unpaid(debts []debt, err error) {
	if isReply(err) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range debts {
		if d.claim.marks[d.index]&markReleased != 0 {
			d.claim.marks[d.index] |= markUnheard
		}
	}
}

// left is the time that ctx, which has a deadline, still gives: never 0, which
// would be no limit.
func left(ctx context.Context) time.Duration {
	d, _ := ctx.Deadline()
	return max(time.Until(d), 1)
}
