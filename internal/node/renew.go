package node

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
)

// This file is about connections that are made anew although they work. A name may lead to another server by now,
// while the old one lives: whoever stayed there would meet nobody who has come later, for good.
//
// The new connection is made ready while the old one serves. Then a PING goes behind all that is queued, what is
// queued later waits, and with the answer to the PING, the old server's last word, the new connection takes over. So
// no outcome is unknown, and no request can arrive after its release. If anything fails, the old one goes on. Nobody
// is told: the node was up all the time.

const (
	// minRenewPause is how long after an attempt that has failed the next one comes. The wait is doubled each time up to
	// maxRenewPause, and varied by ± 50 %.
	minRenewPause = 100 * time.Millisecond
	maxRenewPause = 30 * time.Second
)

// A renewal is how a node's connection is made anew. The node's mu guards it.
type renewal struct {
	timer  *time.Timer        // to the next attempt; nil before it was set first
	cancel context.CancelFunc // ends the attempt that goes on; nil: there is none
	pause  time.Duration      // after the last attempt, which failed; 0: it did not
	looked time.Time          // when LookAgain last did something
}

// setRenewal sets when the connection that begins to serve is made anew: at an age that differs from node to node, as
// their clients connect to all at once. n.mu is held.
func (n *Node) setRenewal() {
	n.renewal.pause = 0
	if n.Age > 0 {
		n.renewAfter(n.Age - rand.N(n.Age/4+1))
	}
}

// renewAfter sets when the next attempt is made. n.mu is held.
func (n *Node) renewAfter(d time.Duration) {
	if n.renewal.timer != nil {
		n.renewal.timer.Reset(d)
		return
	}
	n.renewal.timer = time.AfterFunc(d, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.beginRenewal()
	})
}

// LookAgain has the connection be made anew now, as others find another server at the address. It may be called as often
// as one likes: it does something every 30 s at most, since the others may be wrong.
func (n *Node) LookAgain() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := time.Now(); n.state == nodeUp && n.renewal.cancel == nil && now.Sub(n.renewal.looked) >= maxRenewPause {
		n.renewal.looked = now
		n.beginRenewal()
	}
}

// beginRenewal begins an attempt, once none goes on. n.mu is held.
func (n *Node) beginRenewal() {
	old := n.pipeline
	switch {
	case old == nil || old.over || n.closing:
	case n.renewal.cancel != nil:
		n.renewAfter(minRenewPause)
	default:
		var ctx context.Context
		ctx, n.renewal.cancel = context.WithCancel(n.ctx)
		n.aside.Go(func() { n.renew(ctx, old) })
	}
}

// renew is an attempt. Where it fails, the next one is set.
func (n *Node) renew(ctx context.Context, old *pipeline) {
	replaced := n.replace(ctx, old)
	n.mu.Lock()
	defer n.mu.Unlock()
	r := &n.renewal
	r.cancel()
	r.cancel = nil
	if !replaced && !old.over && !n.closing {
		r.pause = min(max(2*r.pause, minRenewPause), maxRenewPause)
		n.renewAfter(r.pause/2 + rand.N(r.pause)) //nolint:contextcheck // Each attempt has a context of its own.
	}
}

// replace makes a connection that takes over from the old one. Of all nodes one does so at a time: the requests of one
// wait for a moment, and must find the others. A pool that has none to give is not asked: it would make the
// application wait, and a call of it that hangs has a place that a broken connection may need.
func (n *Node) replace(ctx context.Context, old *pipeline) bool {
	if n.Source.IsSpent() || n.Source.Stuck() > 0 || !n.Readiness.renewing.CompareAndSwap(false, true) {
		return false
	}
	defer n.Readiness.renewing.Store(false)
	n.Source.Renew()
	w, dialect, err := n.prepare(ctx)
	if err != nil {
		return false
	}
	replaced := n.handOver(ctx, old, n.newPipeline(w, dialect))
	if !replaced {
		w.Abort()
		w.GiveBack()
	}
	return replaced
}

// handOver has the new connection follow the old one, and says whether it does. What the old server has refused so far
// is sent to it once more: the new one may have nothing to do with it.
func (n *Node) handOver(ctx context.Context, old, next *pipeline) bool {
	ctx, cancel := context.WithTimeout(ctx, n.Timeout)
	defer cancel()
	n.mu.Lock()
	defer n.mu.Unlock()
	if old.over || n.closing {
		return false
	}
	n.sendOpen()
	old.successor, old.last = next, &Request{Task: &Task{Limit: n.Timeout}}
	n.push(old.last)
	n.mu.Unlock()
	<-ctx.Done() // Also when the old one ends, in whatever way.
	n.mu.Lock()
	if !old.replaced {
		old.successor, old.last, old.holds = nil, nil, false
		n.work.Broadcast()
	}
	return old.replaced
}

// takeOver has the next connection serve, if there is one and the answer to q was the last of p. n.mu is held.
func (n *Node) takeOver(p *pipeline, q *Request) bool {
	if q != p.last || n.closing {
		return false
	}
	p.replaced = true
	p.endLocked(nil)
	n.start(p.successor)
	return true
}

// serve reads from a connection, and from those that follow it. It returns the last one, and why that has ended.
func (n *Node) serve(p *pipeline) (*pipeline, error) {
	for {
		err := p.read()
		if !p.replaced {
			return p, err
		}
		n.aside.Go(p.retire)
		n.subscription.drop(true)
		p = p.successor
	}
}

// retire ends a connection that another one has followed. The pool is not to hand it out again.
func (p *pipeline) retire() {
	<-p.writerDone
	p.wire.Abort()
	p.wire.GiveBack()
}

// newPipeline returns a pipeline that does not serve yet.
func (n *Node) newPipeline(w *conn.Wire, d ConnDialect) *pipeline {
	return &pipeline{node: n, wire: w, dialect: d, writerDone: make(chan struct{})}
}
