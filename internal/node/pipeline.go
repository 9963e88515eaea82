package node

import (
	"context"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
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

	dialect ConnDialect // nil: requests are sent as they are given

	writerDone chan struct{}
	watchdog   *time.Timer

	// The reader's, and after it the node's.
	served      bool        // a reply that is no error has come
	wrongServer error       // a reply has said that this is the wrong server
	half        directReply // to the oldest request

	// Guarded by node.mu.
	over       bool      // broken or closed: the writer ends
	why        error     // set with over
	unanswered bool      // the watchdog has ended it, for silence
	lastReply  time.Time // or when the connection was made
	dozing     bool      // the watchdog sleeps until the next PING is due

	// See standstill.go.
	wakes  time.Time     // when the watchdog is due
	lead   time.Duration // the clock's, when that was set
	looked bool          // the watchdog was late, and has put its look off

	scriptsOnly bool // the server does not know what direct requests take

	// See renew.go.
	endRenewal context.CancelFunc // ends the attempt; nil: there was none
	successor  *pipeline          // takes over; nil: none does
	last       *Request           // is answered last then
	holds      bool               // last was written, and nothing more is
	replaced   bool               // the successor has taken over
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
			if err != nil {
				return p.abort(fmt.Errorf("%w: %q", errUnasked, conn.Said(err)))
			}
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
	if q = n.inFlight.head; p.over || q == nil {
		return nil, out, false, false
	}
	direct := q.direct
	if direct {
		complete := false
		if out, err, complete = p.direct(q, reply, err); !complete {
			return q, out, false, true
		}
	}
	n.inFlight.remove(q)
	if q.Kind != Aside {
		p.lastReply, n.refusedWhileSilent = now, false
		took := max(now.Sub(n.epoch)-q.sent, 0)
		n.rtt.add(took)
		n.takes.Store(int64(max(min(n.rtt.smoothed, took), 1)))
		p.wrongServer = conn.WrongServer(err)
	}
	p.served = p.served || err == nil
	switch {
	case q == &n.drainPing:
		last = p.drained()
		return q, out, last, !last
	case q.Command.Script == nil:
		return q, out, n.takeOver(p, q), false
	case q.look != nil:
		n.looked(q.look, reply, err)
		return q, out, false, true
	case err != nil:
		out.Err, again = n.refused(q, err)
		return q, out, false, again
	}
	if !direct {
		out = q.Command.Script.Decode(reply)
	}
	if p.dialect != nil && q.Command.Script.Grants {
		p.dialect.Heard(out, now)
	}
	if q.Trace != nil {
		out = q.heard(out)
	}
	if q.Kind == Release {
		n.released(q, out.Stance != Silent)
	}
	if q.Trace != nil && n.vanished.hear(q, &out, now) {
		n.Observer.Vanished(now, n.vanished.times)
	}
	return q, out, false, false
}

// drained ends the pipeline at the answer to its last PING, unless something is left to do. node.mu is held.
func (p *pipeline) drained() bool {
	n := p.node
	switch {
	case n.queue.len > 0 || n.inFlight.len > 0:
		n.sendDrainPing() // A release is still to be answered.
		return false
	case n.releases.open > 0:
		return false // With the release that is sent again comes another last PING.
	default:
		return p.endLocked(nil) // Here, or a release might still be sent.
	}
}

// abort ends the pipeline for the reason why, unless it has ended before, and
// returns the reason that counts. It does not wait for reader and writer; the
// closed socket ends them.
func (p *pipeline) abort(why error) error {
	p.node.mu.Lock()
	first := p.endLocked(why)
	why = p.why
	stays := !p.node.closing // If not, nobody sends again what the kernel does not deliver.
	p.node.mu.Unlock()
	if first && why != nil {
		if stays {
			p.wire.Forget()
		}
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
	if p.endRenewal != nil {
		p.endRenewal()
	}
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
	n, now := p.node, time.Now()
	n.Wake(now)
	n.mu.Lock()
	if p.over {
		n.mu.Unlock()
		return
	}
	p.looked = p.pause(now) >= MinStandstill && !p.looked
	if p.looked { // First, what has arrived is read; once, or a process that is throttled would never get beyond it.
		p.sleep(now, Arrival)
		n.mu.Unlock()
		return
	}
	if limit, broken := n.isBroken(now); broken {
		p.unanswered = true
		n.mu.Unlock()
		_ = p.abort(fmt.Errorf("no reply for %v", limit))
		return
	}
	n.renew(now)
	busy := n.inFlight.len > 0 || n.queue.len > 0
	switch wait := n.misses.signDue(now, p.lastReply); {
	case wait <= 0 && (!busy || n.misses.refused):
		n.push(n.misses.sign(now, &n.Config, n.hear))
		p.sleep(now, WatchInterval)
	case busy || now.Sub(p.lastReply) < WatchInterval:
		p.sleep(now, WatchInterval)
	default:
		p.dozing = true
		p.sleep(now, min(wait, max(n.renewal.wait(now), WatchInterval)))
	}
	n.mu.Unlock()
}
