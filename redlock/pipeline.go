package redlock

import (
	"fmt"
	"runtime"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
)

const (
	// maxBacklog bounds the requests that a node may have queued or unanswered.
	// A full backlog refuses new locks, extensions and inspections, never a
	// release: those are bounded by the locks that were let in before.
	maxBacklog = 1 << 15

	// maxBatch bounds how many requests are written before the flush.
	maxBatch = 256

	// enoughForAWrite is how many requests the writer has gathered when it stops
	// waiting for more: shared by so many, a system call costs each of them little.
	enoughForAWrite = 32
)

// A pipeline is one connection to a node that all callers share. Its writer
// moves requests from the node's queue to its flight and onto the wire, its
// reader matches the replies to the flight in order; neither waits for the
// other, so that many requests share a system call and a round trip. The order
// is also what makes releases safe: one that is queued behind its own lock
// request cannot overtake it.
//
// The redigo connection is used by one writer and one reader at a time, which
// redigo allows, and aborted from anywhere.
type pipeline struct {
	node *node
	wire *conn.Wire
	gen  any // the connection's generation, boxed

	dialect connDialect // nil: requests are sent as they are given

	writerDone chan struct{}
	watchdog   *time.Timer

	// The reader's, and after it the node's.
	served bool  // a reply that is no error has come
	misled error // a reply has said that this is the wrong server

	// Guarded by node.mu.
	over      bool      // broken or closed: the writer ends
	why       error     // set with over
	mute      bool      // the watchdog has ended it, for silence
	lastReply time.Time // or when the connection was made
	dozing    bool      // the watchdog sleeps until the next PING is due
	settles   settlement
}

// An outgoing is a request as the writer sees it: a copy, because the request
// itself may be answered, and sent again, before the batch is written.
type outgoing struct {
	cmd    command
	eval   bool
	forgot bool // as the node's
}

// write is the writer: it ends when the pipeline is over.
func (p *pipeline) write() {
	defer close(p.writerDone)
	var batch []outgoing
	var args []any
	for {
		var dropped []*request
		var more bool
		if batch, dropped, more = p.next(batch[:0]); !more {
			return
		}
		for _, q := range dropped {
			q.deliver(outcome{err: errWithdrawn}, time.Now())
		}
		err := error(nil)
		for _, out := range batch {
			if args, err = p.send(args[:0], out); err != nil {
				break
			}
		}
		if err == nil {
			err = p.wire.Flush()
		}
		clear(batch)
		clear(args)
		if err != nil {
			_ = p.abort(fmt.Errorf("writing: %w", err))
			return
		}
	}
}

// next waits for requests and moves them to the flight; false when the pipeline
// is over. From here on their outcome is unknown until the reply is read. Those
// dropped must not be sent any more.
func (p *pipeline) next(batch []outgoing) (_ []outgoing, dropped []*request, more bool) {
	n := p.node
	n.mu.Lock()
	defer n.mu.Unlock()
	waited := false
	for n.queue.len == 0 && !p.over {
		n.work.Wait()
		waited = true
	}
	// As long as other goroutines queue more, let them: a system call costs as
	// much as ten requests. With nobody else to run, yielding costs nothing.
	for seen := 0; waited && n.queue.len > seen && seen < enoughForAWrite; {
		seen = n.queue.len
		n.mu.Unlock()
		runtime.Gosched()
		n.mu.Lock()
	}
	if p.over {
		return nil, nil, false
	}
	now := time.Since(n.epoch)
	for len(batch) < maxBatch {
		q := n.queue.pop()
		if q == nil {
			break
		}
		switch {
		case q.token != nil && q.kind != releaseKind && q.token.marks[q.index]&markReleased != 0,
			q.kind == repairKind && now > q.gone:
			// Its release came first, and is on the wire; or the lock has lapsed.
			dropped = append(dropped, q)
			continue
		}
		if q.sets() {
			q.token.marks[q.index] |= markSent
		}
		q.sent = now
		n.flight.push(q)
		cmd := q.cmd
		if cmd.aged {
			cmd = q.token.owner.releaseCommand(time.Now()) // It may have waited.
		}
		batch = append(batch, outgoing{cmd, q.eval, n.forgot})
	}
	if p.dozing {
		p.dozing = false
		p.watchdog.Reset(watchInterval)
	}
	return batch, dropped, true
}

// send writes one request into redigo's buffer. args is scratch space.
func (p *pipeline) send(args []any, out outgoing) ([]any, error) {
	if out.cmd.script == nil {
		return args, p.wire.Send("PING")
	}
	c, script := &out.cmd, out.cmd.script
	dialect := p.dialect
	if dialect != nil && script.session {
		script = dialect.script(script, out.eval, out.forgot)
	} else {
		dialect = nil
	}
	verb, program := "EVALSHA", script.shaArg
	if out.eval {
		verb, program = "EVAL", script.sourceArg
	}
	keys := len(c.keys)
	if c.script.session {
		keys++
	}
	if dialect != nil {
		keys++
	}
	args = append(args, program, keys)
	args = append(args, c.keys...)
	if c.script.session {
		args = append(args, p.node.stone)
	}
	if dialect != nil {
		args = append(args, dialect.key())
	}
	args = append(args, c.argv...)
	if c.script.session {
		args = append(args, p.gen)
	}
	if dialect != nil {
		args = append(args, dialect.args()...)
	}
	return args, p.wire.Send(verb, args...)
}

// read is the reader. It returns why the pipeline ended: nil after a bye.
func (p *pipeline) read() error {
	for {
		reply, err := p.wire.Receive(0)
		if err != nil && !conn.IsReply(err) {
			return p.abort(fmt.Errorf("reading: %w", err))
		}
		now := time.Now()
		q, out, bye, again := p.take(reply, err, now)
		switch {
		case q == nil:
			return p.abort(errUnasked)
		case bye:
			return p.abort(nil)
		case !again:
			q.deliver(out, now)
		}
		if p.misled != nil {
			return p.abort(p.misled)
		}
	}
}

// take matches a reply to the oldest request in flight, and says whether that
// one was sent again or was the connection's last.
func (p *pipeline) take(reply any, err error, now time.Time) (q *request, out outcome, bye, again bool) {
	n := p.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.over {
		return nil, out, false, false
	}
	q = n.flight.pop()
	if q == nil {
		return nil, out, false, false
	}
	p.lastReply, n.shunned = now, false
	if err == nil {
		p.served = true
	} else {
		p.misled = conn.WrongServer(err)
	}
	switch {
	case q.kind == byeKind:
		if n.queue.len > 0 || n.flight.len > 0 {
			n.sayBye() // A release is still to be answered.
			return q, out, false, true
		}
		if n.later.len > 0 {
			return q, out, false, true // With the release that is sent again comes another bye.
		}
		p.endLocked(nil) // Here, or a release might still be sent.
		return q, out, true, false
	case q.cmd.script == nil:
		return q, out, false, false
	case err != nil:
		out.err, again = n.refused(q, err)
		if q.owed && !again {
			p.settles.answered(n, false)
		}
		return q, out, false, again
	}
	out = q.cmd.script.decode(reply)
	if p.dialect != nil && q.cmd.script.session {
		p.dialect.heard(out, now)
	}
	released := q.kind == releaseKind && out.stance != silent
	if q.token != nil {
		m := &q.token.marks[q.index]
		*m = m.heard(q.kind, out)
	}
	if q.owed {
		p.settles.answered(n, released)
	}
	if released {
		out = q.token.releasedLocked(int(q.index), out)
	}
	return q, out, false, false
}

// abort ends the pipeline for the reason why, unless it has ended before, and
// returns the reason that counts. It does not wait for reader and writer; the
// closed socket ends them.
func (p *pipeline) abort(why error) error {
	p.node.mu.Lock()
	first := p.endLocked(why)
	why = p.why
	p.node.mu.Unlock()
	if first && why != nil {
		p.wire.Abort()
	}
	return why
}

// endLocked ends the pipeline without touching the connection, and says whether
// it had not ended before. node.mu is held.
func (p *pipeline) endLocked(why error) bool {
	if p.over {
		return false
	}
	p.over, p.why = true, why
	p.watchdog.Stop()
	p.node.work.Broadcast()
	return true
}

// isBroken reports whether the oldest request has been unanswered for so long
// that the connection must be broken. A long timeout of its own gives it longer,
// unless others have been turned away meanwhile: it must not keep a dead
// connection for them. n.mu is held.
func (n *node) isBroken(now time.Time) (limit time.Duration, broken bool) {
	q := n.flight.head
	if q == nil {
		return 0, false
	}
	limit = silence(n.timeout)
	if !n.shunned {
		limit = silence(max(q.limit, n.timeout))
	}
	return limit, now.Sub(n.epoch)-q.sent >= limit
}

// watch is the watchdog: it aborts a connection whose oldest request has had
// no answer for too long, and keeps an idle one alive. It is a timer, not a
// goroutine.
func (p *pipeline) watch() {
	n := p.node
	n.mu.Lock()
	if p.over {
		n.mu.Unlock()
		return
	}
	now := time.Now()
	if limit, broken := n.isBroken(now); broken {
		p.mute = true
		n.mu.Unlock()
		_ = p.abort(fmt.Errorf("no reply for %v", limit))
		return
	}
	switch idle := now.Sub(p.lastReply); {
	case n.flight.len > 0 || n.queue.len > 0 || idle < watchInterval:
		p.watchdog.Reset(watchInterval)
	case idle >= conn.IdlePing:
		n.push(&request{task: &task{kind: pingKind, limit: n.timeout}})
		p.watchdog.Reset(watchInterval)
	default:
		p.dozing = true
		p.watchdog.Reset(conn.IdlePing - idle)
	}
	n.mu.Unlock()
}
