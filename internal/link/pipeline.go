package link

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

var errUnasked = errors.New("the server sent a reply that nobody asked for")

// A pipeline is one connection to a node that all callers share. Its writer moves requests from the node's queue to
// its flight and onto the wire, its reader matches the replies to the flight in order; neither waits for the other,
// so that many requests share a system call and a round trip. The order is also what makes releases safe: one that is
// queued behind its own lock request cannot overtake it.
//
// The redigo connection is used by one writer and one reader at a time, which
// redigo allows, and aborted from anywhere. A caller that is alone takes the place of both; see alone.go.
type pipeline struct {
	link *Link
	wire *conn.Wire
	c    *node.Conn // what the rules know about it; link.mu guards it until the reader has ended

	writing bool           // the writer or a caller writes, and owns the next two. link.mu guards it
	batch   []node.Sending // what is being written
	args    []any          // scratch space
	alone   alone

	writerDone  chan struct{}
	watchdog    *time.Timer        // set while the pipeline serves
	endRenewal  context.CancelFunc // ends the attempt to make the connection anew; nil: there was none
	successor   *pipeline          // takes over; nil: none does. link.mu guards it, and the three above
	wrongServer error              // set by a reply of a wrong server; the reader's, and after its end the link's
}

// read is the reader. It returns why the pipeline ended: nil after the last PING.
func (p *pipeline) read() error {
	for {
		then, why := p.answer(p.wire.Receive(0))
		if then == rests && p.alone.rest() {
			then, why = ends, p.abort(nil)
		}
		if then == ends {
			return why
		}
	}
}

// A next is what the goroutine that has read a reply does then.
type next uint8

const (
	readsOn next = iota
	rests
	ends // The pipeline is over.
)

// answer handles what was read. why is as in read.
func (p *pipeline) answer(reply any, err error) (then next, why error) {
	if err != nil && !conn.IsReply(err) {
		return ends, p.abort(fmt.Errorf("reading: %w", err))
	}
	now := p.wire.Came()
	q, out, effect, then := p.take(reply, err, now)
	switch effect {
	case node.Unasked:
		if err != nil {
			return ends, p.abort(fmt.Errorf("%w: %q", errUnasked, conn.Said(err)))
		}
		return ends, p.abort(errUnasked)
	case node.Drained, node.TakenOver:
		return ends, p.abort(nil)
	case node.Told:
		q.Deliver(out, now)
	case node.Goes:
	}
	if then == ends {
		return ends, p.abort(p.wrongServer)
	}
	return then, nil // If the reader rests, a caller may already read.
}

// take gives a reply to the rules.
func (p *pipeline) take(reply any, err error, now time.Time) (q *node.Request, out node.Outcome, effect node.Effect, then next) {
	l := p.link
	l.mu.Lock()
	defer l.finish()
	if err != nil {
		err = conn.WithoutArguments(err) // One argument is the token, and votes go to logs.
	}
	q, out, effect = l.rules.Answer(p.c, reply, err, now)
	if effect == node.TakenOver {
		p.stopTimers()
		l.rules.Follow(p.successor.c, time.Now())
		l.start(p.successor)
	}
	if said := p.c.Said(); said != nil {
		p.wrongServer = conn.WrongServer(said)
	}
	switch {
	case p.wrongServer != nil:
		then = ends
	case l.Single:
		then = p.alone.answered(q, effect, now)
	}
	return q, out, effect, then
}

// abort ends the pipeline for the reason why, unless it has ended before, and returns the reason that counts. It does
// not wait for reader and writer; the closed socket ends them.
func (p *pipeline) abort(why error) error {
	l := p.link
	l.mu.Lock()
	first := l.rules.End(p.c, why)
	p.stopTimers()
	why = p.c.Why()
	stays := !l.rules.IsClosing() // After Close, nobody would repeat what the kernel drops.
	l.finish()
	if first && why != nil {
		if stays {
			p.wire.Forget()
		}
		p.wire.Abort()
	}
	return why
}

// stopTimers stops the timers and the renewal of a pipeline that is over, and wakes its goroutines. link.mu is held.
func (p *pipeline) stopTimers() {
	p.watchdog.Stop()
	if p.endRenewal != nil {
		p.endRenewal()
	}
	p.alone.goOn()
	p.link.work.Broadcast()
}

// watch is the watchdog, run by a timer rather than a goroutine.
func (p *pipeline) watch() {
	l, now := p.link, time.Now()
	l.Wake(now)
	l.mu.Lock()
	p.alone.idle(now)
	broken := l.rules.Watch(p.c, now)
	if broken == nil && l.rules.IsOld(p.c, now) {
		l.renew(p, now)
	}
	l.finish()
	if broken != nil {
		_ = p.abort(broken)
	}
}

// Wake makes the connection anew if the process has not run for long; see [node.Node.Wake].
func (l *Link) Wake(now time.Time) {
	l.mu.Lock()
	p := l.pipeline
	l.finishWith(p, l.rules.Wake(now))
}

// finishWith is finish, and closes the connection if the rules have ended it.
func (l *Link) finishWith(p *pipeline, ended bool) {
	if ended {
		p.stopTimers()
	}
	l.finish()
	if ended {
		p.wire.Forget()
		p.wire.Abort()
	}
}
