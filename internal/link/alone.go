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
//   - A caller that is not to wait any longer hands over to the reader, in the middle of a reply, too.
//   - The writer has the reader go on, unless a caller reads. So has the watchdog when nobody has called for a while, so
//     that somebody finds out when an idle connection breaks.

const (
	// aloneAfter is after how many requests in a row that were alone the reader rests: callers that come together
	// should rarely find it resting, as it has to be woken then.
	aloneAfter = 4

	// aloneFor is how long the reader rests at least without a call. The watchdog must see that before it sleeps.
	aloneFor = node.WatchInterval / 2
)

// An alone is what callers need to serve a connection by themselves. link.mu guards it, but for its channel.
type alone struct {
	p      *pipeline
	resume chan struct{} // has the reader go on; it has room for one

	row         int       // of requests: each was alone
	last        time.Time // when the latest was answered
	rests       bool      // the reader does
	reads       bool      // a caller does, in its place
	interrupted bool      // the read deadline is over, so that it hands over
}

// Look has the connection be made anew if it broke while nobody read: what is written to it would be lost. The node is
// not up then, so that an attempt waits for it. Each attempt looks before it begins.
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

// EnqueueAlone is Enqueue for a caller that waits for the answer, and for nothing else before. If it is alone, it must
// call Exchange next.
func (l *Link) EnqueueAlone(q *node.Request, now time.Time) (alone bool, err error) {
	if l.Single && q.Kind != node.LockRequest {
		l.Look()
	}
	l.mu.Lock()
	p := l.pipeline
	short := q.Command.Encoded != nil // What is encoded is so short that the kernel takes it at once.
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

// Exchange writes the request, and reads until its answer has been delivered, or somebody else is to read it.
func (l *Link) Exchange() {
	p := l.caller
	defer p.alone.leave() // Also if the user's code, which hears of the answer, ends this goroutine.
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

// leave has a caller read no more. The reader goes on if there may be something to read.
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

// Interrupt has a caller that reads hand over to the reader at once. It may be called as often as one likes.
func (l *Link) Interrupt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.pipeline; p != nil && p.alone.reads && !p.alone.interrupted {
		p.alone.interrupted = true
		p.wire.Interrupt(true)
	}
}

// goOn has the reader go on, unless a caller reads, which does that then. link.mu is held.
func (a *alone) goOn() {
	if a.rests && !a.reads {
		a.rests, a.row = false, 0
		a.resume <- struct{}{}
	}
}

// answered takes what a reply to q has come to, and says what whoever has read it does next. link.mu is held.
func (a *alone) answered(q *node.Request, e node.Effect, at time.Time) next {
	n, c := a.p.link.rules, a.p.c
	if a.reads {
		a.last = at
		if e == node.Goes && n.Queued(c) == 0 {
			return readsOn // Half of its answer has come.
		}
		return rests // If it goes once more, the writer and the reader see to that.
	}
	switch {
	case e != node.Told, q.Kind == node.Aside: // By what was asked aside the watchdog does not stay awake.
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

// idle has the reader go on if nobody has called for a while. link.mu is held.
func (a *alone) idle(now time.Time) {
	if now.Sub(a.last) >= aloneFor {
		a.goOn()
	}
}

// rest is the reader's. It returns when it is to go on; over: there is nothing more to read.
func (a *alone) rest() (over bool) {
	<-a.resume
	l := a.p.link
	l.mu.Lock()
	defer l.mu.Unlock()
	return a.p.c.IsOver()
}
