package node

import (
	"fmt"
	"runtime"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
)

const (
	// MaxBacklog bounds the requests that a node may have queued or unanswered.
	// A full backlog refuses new locks, extensions and inspections, never a
	// release: those are bounded by the locks that were let in before.
	MaxBacklog = 1 << 15

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
	node *Node
	wire *conn.Wire
	gen  any // the connection's generation, boxed

	dialect ConnDialect // nil: requests are sent as they are given

	writerDone chan struct{}
	watchdog   *time.Timer

	// The reader's, and after it the node's.
	served      bool  // a reply that is no error has come
	wrongServer error // a reply has said that this is the wrong server

	// Guarded by node.mu.
	over       bool      // broken or closed: the writer ends
	why        error     // set with over
	unanswered bool      // the watchdog has ended it, for silence
	lastReply  time.Time // or when the connection was made
	dozing     bool      // the watchdog sleeps until the next PING is due
	settles    settlement
}

// A wireRequest is a request as the writer sees it: a copy, because the request
// itself may be answered, and sent again, before the batch is written.
type wireRequest struct {
	cmd    Command
	eval   bool
	forgot bool // as the node's
}

// write is the writer: it ends when the pipeline is over.
func (p *pipeline) write() {
	defer close(p.writerDone)
	var batch []wireRequest
	var args []any
	for {
		var dropped []*Request
		var more bool
		if batch, dropped, more = p.next(batch[:0]); !more {
			return
		}
		for _, q := range dropped {
			q.deliver(Outcome{Err: ErrWithdrawn}, time.Now())
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
func (p *pipeline) next(batch []wireRequest) (_ []wireRequest, dropped []*Request, more bool) {
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
		case q.Token != nil && q.Kind != Release && q.Token.marks[q.Index]&MarkReleased != 0,
			q.Kind == RepairRequest && now > q.gone:
			// Its release came first, and is on the wire; or the lock has lapsed.
			dropped = append(dropped, q)
			continue
		}
		if q.sets() {
			q.Token.marks[q.Index] |= MarkSent
		}
		q.sent = now
		n.inFlight.push(q)
		cmd := q.Command
		if cmd.Timed {
			cmd = q.Token.owner.ReleaseCommand(time.Now()) // It may have waited.
		}
		batch = append(batch, wireRequest{cmd, q.Eval, n.forgot})
	}
	if p.dozing {
		p.dozing = false
		p.watchdog.Reset(WatchInterval)
	}
	return batch, dropped, true
}

// send writes one request into redigo's buffer. args is scratch space.
func (p *pipeline) send(args []any, out wireRequest) ([]any, error) {
	if out.cmd.Script == nil {
		return args, p.wire.Send("PING")
	}
	c, script := &out.cmd, out.cmd.Script
	dialect := p.dialect
	if dialect != nil && script.Session {
		script = dialect.Script(script, out.eval, out.forgot)
	} else {
		dialect = nil
	}
	verb, program := "EVALSHA", script.Hash
	if out.eval {
		verb, program = "EVAL", script.Source
	}
	keys := len(c.Keys)
	if c.Script.Session {
		keys++
	}
	if dialect != nil {
		keys++
	}
	args = append(args, program, keys)
	args = append(args, c.Keys...)
	if c.Script.Session {
		args = append(args, p.node.tombstoneKey)
	}
	if dialect != nil {
		args = append(args, dialect.Key())
	}
	args = append(args, c.Args...)
	if c.Script.Session {
		args = append(args, p.gen)
	}
	if dialect != nil {
		args = append(args, dialect.Args()...)
	}
	return args, p.wire.Send(verb, args...)
}

// read is the reader. It returns why the pipeline ended: nil after the last PING.
func (p *pipeline) read() error {
	for {
		reply, err := p.wire.Receive(0)
		if err != nil && !conn.IsReply(err) {
			return p.abort(fmt.Errorf("reading: %w", err))
		}
		now := p.wire.Came()
		q, out, last, again := p.take(reply, err, now)
		switch {
		case q == nil:
			return p.abort(errUnasked)
		case last:
			return p.abort(nil)
		case !again:
			q.deliver(out, now)
		}
		if p.wrongServer != nil {
			return p.abort(p.wrongServer)
		}
	}
}

// take matches a reply to the oldest request in flight, and says whether that
// one was sent again or was the connection's last.
func (p *pipeline) take(reply any, err error, now time.Time) (q *Request, out Outcome, last, again bool) {
	n := p.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.over {
		return nil, out, false, false
	}
	q = n.inFlight.pop()
	if q == nil {
		return nil, out, false, false
	}
	p.lastReply, n.refusedWhileSilent = now, false
	n.rtt = smoothed(n.rtt, now.Sub(n.epoch)-q.sent)
	if err == nil {
		p.served = true
	} else {
		p.wrongServer = conn.WrongServer(err)
	}
	switch {
	case q.Kind == drainKind:
		if n.queue.len > 0 || n.inFlight.len > 0 {
			n.sendDrainPing() // A release is still to be answered.
			return q, out, false, true
		}
		if n.repeats.len > 0 {
			return q, out, false, true // With the release that is sent again comes another last PING.
		}
		p.endLocked(nil) // Here, or a release might still be sent.
		return q, out, true, false
	case q.Command.Script == nil:
		return q, out, false, false
	case err != nil:
		out.Err, again = n.refused(q, err)
		if q.wasOwed && !again {
			p.settles.answered(n, false)
		}
		return q, out, false, again
	}
	out = q.Command.Script.Decode(reply)
	if p.dialect != nil && q.Command.Script.Session {
		p.dialect.Heard(out, now)
	}
	released := q.Kind == Release && out.Stance != Silent
	if q.Token != nil {
		m := &q.Token.marks[q.Index]
		*m = m.Heard(q.Kind, out)
	}
	if q.wasOwed {
		p.settles.answered(n, released)
	}
	if released {
		out = q.Token.releasedLocked(int(q.Index), out)
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
func (n *Node) isBroken(now time.Time) (limit time.Duration, broken bool) {
	q := n.inFlight.head
	if q == nil {
		return 0, false
	}
	limit = Silence(n.Timeout)
	if !n.refusedWhileSilent {
		limit = Silence(max(q.Limit, n.Timeout))
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
		p.unanswered = true
		n.mu.Unlock()
		_ = p.abort(fmt.Errorf("no reply for %v", limit))
		return
	}
	switch idle := now.Sub(p.lastReply); {
	case n.inFlight.len > 0 || n.queue.len > 0 || idle < WatchInterval:
		p.watchdog.Reset(WatchInterval)
	case idle >= conn.IdlePing:
		n.push(&Request{Task: &Task{Kind: pingKind, Limit: n.Timeout}})
		p.watchdog.Reset(WatchInterval)
	default:
		p.dozing = true
		p.watchdog.Reset(conn.IdlePing - idle)
	}
	n.mu.Unlock()
}
