package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// This file is about a node's life: its goroutine, from one connection to the next, and its end.

// run is the node's goroutine: it keeps the connection up until close.
func (n *Node) run() {
	defer close(n.done)
	defer n.aside.Wait()
	var redial redialer
	for {
		p, err := n.connect()
		var wait time.Duration
		if err == nil {
			began := time.Now()
			p, err = n.serve(p)
			n.endPipeline(p, err)
			if err == nil || n.mayEnd() {
				n.fail(nodeClosed, ErrClosed)
				return
			}
			wait = redial.after(p.served || errors.As(err, new(StandstillError)), p.wrongServer != nil, time.Since(began), time.Now())
		} else {
			wait = redial.failed()
		}
		if wait > 0 && !n.rest(err, wait) {
			n.fail(nodeClosed, ErrClosed)
			return
		}
	}
}

// rest waits before the next attempt to connect; false when the node is being
// closed instead.
func (n *Node) rest(why error, backoff time.Duration) bool {
	n.fail(nodeBackoff, fmt.Errorf("not connected: %w", why))
	t := time.NewTimer(backoff/2 + rand.N(backoff))
	defer t.Stop()
	select {
	case <-t.C:
	case <-n.ctx.Done():
		return false
	}
	if n.mayEnd() {
		return false
	}
	n.mu.Lock()
	n.state = nodeConnecting
	n.mu.Unlock()
	return true
}

// mayEnd reports whether the node is being closed and has nothing left to send.
func (n *Node) mayEnd() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closing && n.queue.len == 0 && n.releases.open == 0
}

// fail enters a state in which nothing can be sent, and answers what is queued.
func (n *Node) fail(s nodeState, why error) {
	n.mu.Lock()
	n.state, n.down = s, why
	n.failed = true
	n.Readiness.add(0)
	if s == nodeBackoff {
		n.reportLoss(why)
		n.releases.sweep(time.Since(n.epoch))
	}
	var failed []*Request
	for q := n.queue.pop(); q != nil; q = n.queue.pop() {
		n.owe(q)
		failed = append(failed, q)
	}
	n.mu.Unlock()
	for _, q := range failed {
		q.deliver(Outcome{Err: why}, time.Now())
	}
}

// reportLoss sends one event per loss. n.mu is held.
func (n *Node) reportLoss(why error) {
	if !n.lost && !n.closing {
		n.lost = true
		n.Observer.Lost(why)
	}
}

// endPipeline ends a pipeline whose reader has returned: what is in flight gets an
// answer, the outcome of what would undo a release is unknown, releases are owed, and the
// connection goes back to its pool once reader and writer have let go of it.
func (n *Node) endPipeline(p *pipeline, why error) {
	n.mu.Lock()
	n.leave()
	n.pipeline, n.refusedWhileSilent = nil, false
	n.failed = p.unanswered // After a wrong server, rest sets it.
	n.misses.down()
	n.takes.Store(0)
	n.noteLongReply(why)
	if why != nil && !n.resumes {
		n.reportLoss(why)
	}
	failed := n.leaveOpen()
	if n.releases.timer != nil {
		n.releases.timer.Stop() // The next connection sets it.
	}
	n.mu.Unlock()
	for _, q := range failed {
		q.deliver(Outcome{Err: why}, time.Now())
	}
	n.subscription.drop()
	late := time.AfterFunc(n.ConnectTimeout, n.stopWaitingForPool)
	defer late.Stop()
	<-p.writerDone
	p.wire.GiveBack()
}

// leaveOpen takes all requests from a connection that has ended, and returns those that have failed. n.mu is held.
func (n *Node) leaveOpen() (failed []*Request) {
	n.settle()
	for q := n.inFlight.pop(); q != nil; q = n.inFlight.pop() {
		if q.Trace != nil {
			q.note(Unclear)
		}
		if q.undoes() {
			n.unknown++
			n.unknowns++
		}
		if !n.takeBack(q) {
			n.owe(q)
			failed = append(failed, q)
		}
	}
	for q := n.queue.head; q != nil; {
		next := q.next
		if n.takeBack(q) || q == &n.drainPing { // The next connection gets its own.
			n.queue.remove(q)
		}
		q = next
	}
	return failed
}

// Close refuses new requests, lets what is queued and in flight end, and ends
// the connection. Bounded by ctx, as a hung node would otherwise hold it up; what it
// has left then stays until its ttl. Called once.
func (n *Node) Close(ctx context.Context) {
	n.mu.Lock()
	n.closing = true
	n.releases.hurry() // There is no time to wait any more.
	switch {
	case n.state == nodeIdle:
		n.state = nodeClosed
		close(n.done)
	case n.state == nodeUp:
		n.sendReleases()
		n.sendDrainPing()
	case n.queue.len == 0 && n.releases.open == 0:
		n.cancel() // Nothing to wait for.
	}
	n.mu.Unlock()
	select {
	case <-n.done:
	case <-ctx.Done():
		n.kill()
	}
	n.cancel()
}

// kill ends the node's goroutine without regard for what is outstanding. The
// connection is either up, or will not be: putToWork looks at ctx.
func (n *Node) kill() {
	n.cancel()
	n.mu.Lock()
	p := n.pipeline
	n.mu.Unlock()
	if p != nil {
		_ = p.abort(ErrClosed)
	}
}
