package link

import (
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// This file is about callers that come one after the other, to a node that is the only one. Such a caller writes its
// request and reads the answer by itself: waking the writer, the reader and then the caller would take longer than the
// request. The reader rests meanwhile. At any time one goroutine writes and one reads, and all that is written is read:
//
//   - A caller takes the connection only where the reader rests, nobody writes, and nothing is queued or unanswered. So
//     its answer is the next one, whoever comes meanwhile.
//   - What others queue meanwhile is written by the writer at once, and read by the reader when the caller has its
//     answer.
//   - A caller that must not wait any longer hands over to the reader, even in the middle of a reply.
//   - The writer wakes the reader, unless a caller reads. The watchdog wakes it when no call has come for a while, so
//     that somebody finds out when an idle connection breaks.

const (
	// aloneAfter is how many requests in a row must have been alone before the reader rests: callers that come together
	// should rarely find it resting, as they would have to wake it.
	aloneAfter = 4

	// aloneFor is how long the reader rests at least when no call comes. The watchdog must see that before it sleeps.
	aloneFor = node.WatchInterval / 2
)

// An alone is the state by which callers serve a connection themselves. link.mu guards it, except its channel.
type alone struct {
	p      *pipeline
	resume chan struct{} // wakes the reader; it has room for one

	row         int       // how many requests in a row were alone
	last        time.Time // when the latest request was answered
	rests       bool      // the reader rests
	reads       bool      // a caller reads in the reader's place
	interrupted bool      // the read deadline is over, so that the caller hands over
}

// Look ends the connection if it broke while nobody read: a request written to it would be lost. The node is not up
// then, so an attempt waits for a new connection. Each attempt looks before it begins.
func (l *Link) Look() {
	l.mu.Lock()
	p, broken := l.pipeline, false
	if p != nil && p.alone.isUnused() {
		if why := p.wire.Look(); why != nil {
			broken = l.rules.Breaks(p.c, fmt.Errorf("reading: %w", why))
		}
	}
	l.finishWith(p, broken)
}

// EnqueueAlone is Enqueue for a caller that waits for this answer next. If alone is true, the caller must call
// Exchange.
func (l *Link) EnqueueAlone(q *node.Request, now time.Time) (alone bool, err error) {
	if l.Single && q.Kind != node.LockRequest {
		l.Look()
	}
	l.mu.Lock()
	p := l.pipeline
	short := q.Command.Encoded != nil // Encoded commands are so short that the kernel takes them at once.
	if p == nil || !p.alone.isUnused() || !short {
		defer l.finish()
		return false, l.rules.Enqueue(q, now)
	}
	var dropped []*node.Request
	if err = l.rules.Enqueue(q, now); err == nil {
		p.batch, dropped = l.rules.Next(p.c, p.batch[:0], now)
		alone = len(p.batch) > 0
		p.writing, p.alone.reads, l.caller = alone, alone, p
	}
	l.finish()
	drop(dropped)
	return alone, err
}

// isUnused reports whether the reader rests, nobody writes, and nothing is under way. link.mu is held.
func (a *alone) isUnused() bool {
	return a.rests && !a.reads && !a.p.writing && !a.p.c.IsOver() && a.p.link.rules.Backlog() == 0
}

// Exchange writes the request, and reads until its answer has been delivered or the reader takes over.
func (l *Link) Exchange() {
	p := l.caller
	defer p.alone.leave() // Deferred, as the user's code, which gets the answer, may end this goroutine.
	written := p.put() == nil
	l.mu.Lock()
	p.writing = false
	l.finish()
	for written && p.wire.Await() {
		if then, _ := p.answer(p.wire.Receive(0)); then != readsOn {
			return
		}
	}
}

// leave ends a caller's reading. The reader goes on if there may be something to read.
func (a *alone) leave() {
	p, l := a.p, a.p.link
	l.mu.Lock()
	defer l.finish()
	a.reads = false
	if a.interrupted {
		a.interrupted = false
		p.wire.Interrupt(false)
	}
	if l.rules.Backlog() > 0 || p.c.IsOver() || p.wire.HasUnread() {
		a.goOn()
	}
}

// Interrupt makes a caller that reads hand over to the reader at once. It may be called any number of times.
func (l *Link) Interrupt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.pipeline; p != nil && p.alone.reads && !p.alone.interrupted {
		p.alone.interrupted = true
		p.wire.Interrupt(true)
	}
}

// goOn wakes the reader, unless a caller reads, which does so when it leaves. link.mu is held.
func (a *alone) goOn() {
	if a.rests && !a.reads {
		a.rests, a.row = false, 0
		a.resume <- struct{}{}
	}
}

// answered takes the effect of a reply to q, and returns what the goroutine that has read it does next. link.mu is
// held.
func (a *alone) answered(q *node.Request, e node.Effect, at time.Time) next {
	n, c := a.p.link.rules, a.p.c
	if a.reads {
		a.last = at
		if e == node.Goes && n.Queued(c) == 0 {
			return readsOn // Half of its answer has come.
		}
		return rests // If the request goes once more, writer and reader serve it.
	}
	switch {
	case e != node.Told, q.Kind == node.Aside: // Requests made aside do not keep the watchdog awake.
		return readsOn
	case n.Backlog() > 0:
		a.row = 0
		return readsOn
	}
	a.row++
	if a.row < aloneAfter || !a.p.wire.MayInterrupt() || a.p.wire.HasUnread() || c.IsOver() {
		return readsOn
	}
	a.rests, a.last = true, at
	return rests
}

// idle wakes the reader if nobody has called for a while. link.mu is held.
func (a *alone) idle(now time.Time) {
	if now.Sub(a.last) >= aloneFor {
		a.goOn()
	}
}

// rest lets the reader rest until it is woken. over reports that there is nothing more to read.
func (a *alone) rest() (over bool) {
	<-a.resume
	l := a.p.link
	l.mu.Lock()
	defer l.mu.Unlock()
	return a.p.c.IsOver()
}
