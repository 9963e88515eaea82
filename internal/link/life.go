package link

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

// This file is about a link's goroutine, from one connection to the next, and its end.

// run is the link's goroutine: it keeps the connection up until close.
func (l *Link) run() {
	defer close(l.done)
	defer l.aside.Wait()
	var redial node.Redialer
	for {
		p, err := l.connect()
		var wait time.Duration
		if err == nil {
			began := time.Now()
			p, err = l.serve(p)
			if over := l.endPipeline(p); over || err == nil {
				break
			}
			wait = redial.After(p.c.HasServed(), p.wrongServer != nil, time.Since(began), time.Now())
		} else {
			wait = redial.Failed()
		}
		if wait > 0 && !l.rest(err, wait) {
			break
		}
	}
	l.mu.Lock()
	failed, why := l.rules.Finish(time.Now())
	l.finish()
	deliver(failed, why)
}

// deliver tells the rounds that requests have failed.
func deliver(failed []*node.Request, why error) {
	for _, q := range failed {
		q.Deliver(node.Outcome{Err: why}, time.Now())
	}
}

// rest waits before the next attempt to connect. It returns false if the link is being closed.
func (l *Link) rest(why error, backoff time.Duration) bool {
	l.mu.Lock()
	failed, why := l.rules.Rest(why, time.Now())
	l.finish()
	deliver(failed, why)
	t := time.NewTimer(backoff/2 + rand.N(backoff))
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.ctx.Done():
		return false
	}
	l.mu.Lock()
	defer l.finish()
	if l.rules.MayEnd() {
		return false
	}
	l.rules.Retry()
	return true
}

// endPipeline ends a pipeline whose reader has returned. Its connection goes back to its pool once the writer has
// ended. over: the link is being closed and has nothing left to send.
func (l *Link) endPipeline(p *pipeline) (over bool) {
	l.mu.Lock()
	failed, why := l.rules.Ended(p.c, errors.Is(p.c.Why(), conn.ErrLongReply), time.Now())
	l.pipeline = nil
	if l.timer != nil {
		l.timer.Stop() // The next connection sets it.
	}
	l.finish()
	deliver(failed, why)
	l.subscription.drop()
	late := time.AfterFunc(l.ConnectTimeout, func() { // The pool's connection cannot be ended.
		l.mu.Lock()
		defer l.finish()
		l.rules.Waits()
	})
	defer late.Stop()
	<-p.writerDone
	p.wire.GiveBack()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rules.MayEnd()
}

// Close refuses new requests, lets queued and sent ones end, and ends the connection. ctx bounds it, as a hung node
// would otherwise hold it up: the keys that are left then stay until their ttl. Call it once.
func (l *Link) Close(ctx context.Context) {
	l.mu.Lock()
	switch over := l.rules.Close(time.Now()); {
	case l.rules.State() == node.Closed:
		close(l.done)
	case over:
		l.cancel() // Nothing to wait for.
	}
	l.finish()
	select {
	case <-l.done:
	case <-ctx.Done():
		l.kill()
	}
	l.cancel()
}

// kill ends the link's goroutine without regard for outstanding requests. A connection that is being made will not come
// up: putToWork looks at ctx.
func (l *Link) kill() {
	l.cancel()
	l.mu.Lock()
	p := l.pipeline
	l.mu.Unlock()
	if p != nil {
		_ = p.abort(node.ErrClosed)
	}
}
