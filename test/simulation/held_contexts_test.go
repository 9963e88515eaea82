package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A heldContext is a context that KeepAlive or Do has made.
type heldContext struct {
	l      *heldLock
	ctx    context.Context //nolint:containedctx // It is what is tested.
	parent *heldParent
	called time.Time
}

// A heldParent is a caller's context.
type heldParent struct {
	ctx    context.Context //nolint:containedctx // As above.
	cancel context.CancelCauseFunc
	why    error

	mu    sync.Mutex
	ended time.Time
}

func (p *heldParent) end() {
	p.mu.Lock()
	if p.ended.IsZero() {
		p.ended = time.Now()
	}
	p.mu.Unlock()
	p.cancel(p.why)
}

func (p *heldParent) endedAt() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// newParent returns a context that ends within limit in one of three cases.
func (a *heldActor) newParent(limit time.Duration) *heldParent {
	p := &heldParent{why: fmt.Errorf("the caller of %s has ended", a.name)}
	p.ctx, p.cancel = context.WithCancelCause(a.s.t.Context())
	if a.rng.IntN(3) == 0 {
		after := testkit.Between(a.rng, 0, limit)
		time.AfterFunc(after, func() {
			a.s.tracef("%v", p.why)
			p.end()
		})
	}
	return p
}

func (l *heldLock) keepAlive(p *heldParent) {
	called := time.Now()
	ctx := l.KeepAlive(p.ctx)
	if now := time.Now(); !now.Equal(called) {
		l.s.failf("(7) KeepAlive of %s took %v", l.name, now.Sub(called))
	}
	l.watch(ctx, p)
}

// watch looks at the end of a hold context that was just made.
func (l *heldLock) watch(ctx context.Context, p *heldParent) {
	c := &heldContext{l: l, ctx: ctx, parent: p, called: time.Now()}
	if got, ok := redlock.FromContext(ctx); !ok || got != l.Lock {
		l.s.failf("(4) FromContext of %s: %v", l.name, got)
	}
	l.mu.Lock()
	if l.first == nil && c.called.Equal(l.from) {
		l.first = c
	}
	if len(l.parents) == 0 {
		l.kept = c.called
	}
	l.parents = append(l.parents, p)
	l.mu.Unlock()
	context.AfterFunc(ctx, c.ended)
}

func (l *heldLock) firstContext() *heldContext {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

func (l *heldLock) endParents() {
	l.mu.Lock()
	parents := slices.Clone(l.parents)
	l.mu.Unlock()
	for _, p := range parents {
		p.end()
	}
}

// heldSlack is how much later than the clock says something may happen that
// a timer brings about.
const heldSlack = time.Millisecond

// latest is when the contexts of the lock must have ended: a jump is noticed
// within 100 ms.
func (l *heldLock) latest(until time.Time) time.Time {
	latest, lapse := until, until
	for _, j := range l.jumps(until) {
		lapse = lapse.Add(-j.by)
		by := laterOf(lapse, j.at.Add(100*time.Millisecond))
		if by.Before(latest) {
			latest = by
		}
	}
	return latest
}

func earlierOf(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func laterOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// ended is called at the instant at which the context ends. It checks (4) and (6).
func (c *heldContext) ended() {
	l := c.l
	now, until, cause := time.Now(), l.Until(), context.Cause(c.ctx)
	l.s.tracef("%s: a context ends: %v, until %v", l.name, cause, l.s.offset(until))
	c.checkLate(now, until)
	c.checkCause(now, until, cause)
	if c == l.firstContext() {
		l.checkMoves(until, now)
	}
	l.mu.Lock()
	if same(cause, redlock.ErrMaxHold) || same(cause, redlock.ErrClosed) {
		l.stopped = now
	}
	l.mu.Unlock()
	if errors.Is(cause, redlock.ErrLost) {
		l.noteEnd(until)
	}
}

// limit is when the max hold ends the contexts, zero if there is none.
func (l *heldLock) limit() time.Time {
	if l.o.maxHold == 0 {
		return time.Time{}
	}
	return l.start.Add(l.o.maxHold)
}

// checkLate checks that nothing has ended the context that should have ended it before.
func (c *heldContext) checkLate(now, until time.Time) {
	l := c.l
	l.mu.Lock()
	released, robbed, found := l.released, l.robbed, l.foundLost
	l.mu.Unlock()
	noticed := time.Time{}
	if alone := len(l.s.healthy()) == len(l.s.nodes); !robbed.IsZero() && alone && !l.h.outage.overlaps(robbed, now) {
		noticed = robbed.Add(2*(l.ttl/3+l.h.settle) + min(l.ttl/20, time.Second))
	}
	for _, end := range []struct {
		what string
		at   time.Time
	}{
		{"Until", l.latest(until)},
		{"its caller", c.parent.endedAt()},
		{"Unlock", released},
		{"Close", l.c.closedAt()},
		{"the max hold", l.limit()},
		{"the loss of all keys", noticed},
		{"an extension has found it lost", found},
	} {
		if late := now.Sub(laterOf(end.at, c.called)); !end.at.IsZero() && late > heldSlack || end.what == "Until" && late > 0 {
			l.s.failf("(4) a context of %s ended %v after %s", l.name, late, end.what)
		}
	}
}

// checkCause checks that the context's cause has ended it.
func (c *heldContext) checkCause(now, until time.Time, cause error) {
	l, s := c.l, c.l.s
	released, lapse, secure := l.releasedAt(), l.lapse(until), l.isSecure()
	before := func(t time.Time) bool { return t.IsZero() || now.Before(t) }
	switch {
	case same(cause, redlock.ErrExpired):
		if now.Before(lapse) {
			s.failf("(4) %s has not expired before %v", l.name, s.offset(lapse))
		}
		if c == l.firstContext() && secure && l.wasKept() && !lapse.Before(until) && !l.isOutage(until) {
			s.failf("(6) %s has expired though a quorum of nodes is well", l.name)
		}
	case same(cause, redlock.ErrLost):
		if hurt := l.hurt(); hurt <= len(s.nodes)-s.need && before(released) {
			s.failf("(4) %s is lost, but only %d of %d nodes can have lost it", l.name, hurt, len(s.nodes))
		}
		if secure && before(released) {
			s.failf("(6) %s is lost though a quorum of nodes is well", l.name)
		}
	case same(cause, redlock.ErrMaxHold):
		if before(l.limit()) {
			s.failf("(4) the max hold of %s ends at %v", l.name, s.offset(l.limit()))
		}
	case same(cause, redlock.ErrClosed):
		if before(l.c.closedAt()) {
			s.failf("(4) %s was not closed", l.c.name)
		}
	case same(cause, context.Canceled):
		if before(released) {
			s.failf("(4) %s was not released", l.name)
		}
	case same(cause, c.parent.why):
		if before(c.parent.endedAt()) {
			s.failf("(4) the caller of %s has not ended", l.name)
		}
	default:
		s.failf("(4) a context of %s has ended for the reason %v", l.name, cause)
	}
}

// hurt returns on how many nodes the lock may have been found missing.
func (l *heldLock) hurt() (hurt int) {
	for _, n := range l.s.nodes {
		if !n.has(l.simLock) || n.hasLost(l.simLock) {
			hurt++
		}
	}
	return hurt
}

// isSecure reports whether a quorum of healthy nodes has the lock and will keep it.
func (l *heldLock) isSecure() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.secure && (!l.h.outage.long() || !l.h.outage.overlaps(l.start, time.Now()))
}

// wasKept reports whether the lock has been kept from the beginning until now.
func (l *heldLock) wasKept() bool {
	c := l.firstContext()
	if c == nil || !c.parent.endedAt().IsZero() {
		return false
	}
	return l.o.maxHold == 0 || time.Now().Before(l.limit())
}

// isOutage reports whether extensions may have had no chance before t since all
// nodes hung.
func (l *heldLock) isOutage(t time.Time) bool {
	o := l.h.outage
	return o.overlaps(l.start, t) && t.Before(o.to.Add(l.o.timeout+min(l.ttl/20, time.Second)+l.h.settle))
}

// checkMoves checks (6): while a quorum of nodes is well, Until keeps moving.
func (l *heldLock) checkMoves(until, now time.Time) {
	if !l.isSecure() || !l.wasKept() || l.isOutage(now) || !now.Before(l.lapse(until)) {
		return // Also after a jump that has not been noticed yet.
	}
	before := func(t time.Time) bool { return !t.IsZero() && t.Before(now) }
	if left := until.Sub(now); left < l.expected && !before(l.c.closedAt()) && !before(l.releasedAt()) {
		l.s.failf("(6) %s has only %v of its validity left: an extension is overdue by %v", l.name, left, l.expected-left)
	}
}
