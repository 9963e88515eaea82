package link

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

// connect makes a connection and puts it to work. Only then do requests flow.
func (l *Link) connect() (*pipeline, error) {
	p, err := l.prepare(l.ctx)
	if err == nil && !l.putToWork(p) {
		p.discard()
		return nil, node.ErrClosed
	}
	return p, err
}

// prepare borrows a connection and makes it ready.
func (l *Link) prepare(ctx context.Context) (*pipeline, error) {
	limit := l.ConnectTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	l.mu.Lock()
	l.connects++
	l.mu.Unlock()
	w, err := l.Source.Borrow(ctx)
	if err != nil {
		return nil, conn.Explain(err)
	}
	p := &pipeline{link: l, wire: w, c: &node.Conn{Spread: rand.Float64()}, writerDone: make(chan struct{})}
	p.alone.p, p.alone.resume = p, make(chan struct{}, 1)
	stop := context.AfterFunc(ctx, w.Abort)
	err = l.handshake(ctx, w, l.Source, p.c)
	if !stop() && err == nil {
		err = fmt.Errorf("handshake took over %v", limit)
	}
	if err != nil {
		p.discard()
		return nil, w.Explain(err)
	}
	return p, nil
}

// discard ends a connection that nobody uses, and that its pool must not hand out again.
func (p *pipeline) discard() {
	p.wire.Abort()
	p.wire.GiveBack()
}

// putToWork puts a prepared connection to work. It returns false if the link was killed.
func (l *Link) putToWork(p *pipeline) bool {
	l.mu.Lock()
	defer l.finish()
	if l.ctx.Err() != nil {
		return false
	}
	l.rules.Connected(p.c, time.Now())
	l.start(p)
	return true
}

// start starts the watchdog and the writer of a connection that the rules have put to work. l.mu is held.
func (l *Link) start(p *pipeline) {
	p.watchdog = time.AfterFunc(node.WatchInterval, p.watch) // finish resets it.
	l.pipeline = p
	go p.write()
}

// renew makes the connection anew. Only one node does so at a time: its requests wait for a moment, and those to the
// other nodes must not. l.mu is held.
func (l *Link) renew(old *pipeline, now time.Time) {
	if !l.Readiness.renewing.CompareAndSwap(false, true) {
		return
	}
	ctx, cancel := context.WithCancel(l.ctx)
	old.endRenewal = cancel
	l.rules.Renews(now)
	l.aside.Go(func() {
		defer cancel()
		defer l.Readiness.renewing.Store(false)
		l.replace(ctx, old)
	})
}

// replace makes a connection that takes over from the old one. It asks no pool that has none to give, which would make
// the application wait. Nor does it ask a pool with a call that hangs: a broken connection may need the places left.
func (l *Link) replace(ctx context.Context, old *pipeline) {
	if l.Source.IsSpent() || l.Source.Stuck() > 0 {
		return
	}
	l.Source.Fresh.Store(true)
	next, err := l.prepare(ctx)
	if err == nil && !l.handOver(ctx, old, next) {
		next.discard()
	}
}

// handOver hands the requests over from the old to the next connection, and reports whether it did.
func (l *Link) handOver(ctx context.Context, old, next *pipeline) bool {
	ctx, cancel := context.WithTimeout(ctx, l.Node.Timeout)
	defer cancel()
	l.mu.Lock()
	begins := l.rules.HandOver(old.c, next.c, time.Now())
	if begins {
		old.successor = next
	}
	l.finish()
	if !begins {
		return false
	}
	<-ctx.Done() // However the old connection ends, it cancels ctx.
	l.mu.Lock()
	defer l.finish()
	stays := l.rules.Stay(old.c)
	if stays {
		old.successor = nil
	}
	return !stays
}

// serve reads from a connection, and from those that follow it. It returns the last one, and why that ended.
func (l *Link) serve(p *pipeline) (*pipeline, error) {
	for {
		err := p.read()
		if !p.c.IsReplaced() {
			return p, err
		}
		old := p
		l.aside.Go(func() {
			<-old.writerDone
			old.discard()
		})
		l.subscription.drop()
		p = p.successor
	}
}
