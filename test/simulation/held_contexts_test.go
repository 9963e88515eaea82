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

// checkUse looks at a lock in use.
func (l *heldLock) checkUse() {
	err := l.check("in use")
	if c := l.firstContext(); c != nil && c.ctx.Err() == nil {
		l.checkMoves(l.Until(), time.Now())
	}
	l.checkLapsed(err)
}

// checkLapsed checks (4): once it has ended, and no quorum of nodes has it, none
// ever has again.
func (l *heldLock) checkLapsed(err error) {
	if err == nil {
		return
	}
	have := l.s.holders(l.simLock)
	l.mu.Lock()
	lapsed := l.lapsed
	if have < l.s.need && lapsed.IsZero() {
		l.lapsed = time.Now()
	}
	l.mu.Unlock()
	if have >= l.s.need && !lapsed.IsZero() {
		l.s.failf("(4) %s has %d nodes again, which it did not have at %v", l.name, have, l.s.offset(lapsed))
	}
}

// checkRepair checks (4): a node gets the keys back only if a quorum had them in
// the extension that has found them missing.
func (l *heldLock) checkRepair(n *simNode) {
	l.mu.Lock()
	ago := time.Since(l.hadQuorum)
	l.mu.Unlock()
	if l.s.loss && l.h.outage.isNone() && !n.isStalled() && ago > l.o.timeout+l.h.settle {
		l.s.failf("(4) %s repairs %s, which had no quorum for %v", n.Name(), l.name, ago)
	}
}

// checkRefused checks why Do had no lock.
func (a *heldActor) checkRefused(err error) {
	closed := a.c.isClosed()
	switch {
	case errors.Is(err, redlock.ErrTaken), errors.Is(err, redlock.ErrNoQuorum):
	case errors.Is(err, redlock.ErrClosed) && closed:
	case errors.Is(err, redlock.ErrMaxHold): // The lock took so long that it was over at once.
	default:
		a.s.failf("(8) %s could not lock: %v", a.name, err)
	}
}

// keepers returns the nodes that store a lock for longer than its release will take.
func (l *heldLock) keepers() []*simNode {
	end := time.Now().Add(2 * l.o.timeout)
	return slices.DeleteFunc(slices.Clone(l.s.nodes), func(n *simNode) bool { return n.lacks(l.simLock, end) != "" })
}

// checkDo checks what Do returned, of whose lock there were keepers when its function ended.
func (l *heldLock) checkDo(err, failure error, keepers []*simNode) {
	keepers = slices.DeleteFunc(keepers, func(n *simNode) bool { return n.hasLost(l.simLock) })
	s, now, lapse := l.s, time.Now(), l.lapse(l.Until())
	cause := context.Cause(l.firstContext().ctx)
	switch {
	case failure != nil && !errors.Is(err, failure):
		s.failf("(8) Do of %s does not return its function's error: %v", l.name, err)
	case errors.Is(cause, redlock.ErrLost) && !errors.Is(err, cause):
		s.failf("(4) Do of %s ended with %v, but returned %v", l.name, cause, err)
	case errors.Is(err, redlock.ErrExpired) && now.Before(lapse):
		s.failf("(4) Do of %s: expired before %v", l.name, s.offset(lapse))
	case errors.Is(err, redlock.ErrLost) && !errors.Is(err, redlock.ErrExpired) && len(keepers) >= s.need:
		s.failf("(4) Do of %s: %v, but %d nodes had it", l.name, err, len(keepers))
	case errors.Is(err, redlock.ErrMaxHold) && !same(cause, redlock.ErrMaxHold), errors.Is(err, redlock.ErrClosed) && !same(cause, redlock.ErrClosed):
		s.failf("(4) Do of %s: %v, but its context ended with %v", l.name, err, cause)
	}
}

// checkReleased checks (5) on the nodes that are well.
func (l *heldLock) checkReleased() {
	s, settle := l.s, l.h.settle
	if l.h.outage.overlaps(l.start, time.Now().Add(l.o.minHold+settle)) {
		return // Some of the releases may be late.
	}
	if l.o.minHold > 0 && time.Now().Before(l.keptTo(l.from)) {
		l.checkMinHold()
	}
	time.Sleep(settle)
	s.mu.Lock()
	rough := l.c.rough
	s.mu.Unlock()
	for _, n := range s.healthy() {
		if !rough && n.hasAny(l.simLock) {
			s.failf("(5) %s has keys of %s after its release", n.Name(), l.name)
		}
	}
	l.checkLapsed(l.observe("after its release"))
}

// checkMinHold checks that a release leaves the keys for the min hold, and no longer.
func (l *heldLock) checkMinHold() {
	s := l.s
	time.Sleep(l.h.settle)
	var have []*simNode
	for _, n := range s.healthy() {
		if n.has(l.simLock) {
			have = append(have, n)
		}
	}
	if keep := l.keptTo(l.from); l.isSecure() && len(have) < s.need && time.Now().Before(keep) {
		s.failf("(5) only %d nodes have %s during its min hold, until %v", len(have), l.name, s.offset(keep))
	}
	time.Sleep(time.Until(l.keptTo(l.from)) - 1)
	for _, n := range have {
		keep := l.keptTo(l.from)
		if !n.has(l.simLock) && time.Now().Before(keep) && !n.hasLost(l.simLock) {
			s.failf("(5) %s lost keys of %s before its min hold ended at %v", n.Name(), l.name, s.offset(keep))
		}
	}
	time.Sleep(time.Until(l.from.Add(s.longest(l.o.minHold))) + heldSlack)
}

// checkClosed checks (7) when Close has returned: it waited for what is held, and for
// nothing else.
func (h *heldSim) checkClosed(c *simClient, start time.Time, err error) {
	now, last := time.Now(), start
	time.Sleep(time.Nanosecond) // What has ended at this instant has noted it then.
	for _, l := range h.allHeld() {
		if l.c != c {
			continue
		}
		l.mu.Lock()
		kept, doing, left := len(l.parents) > 0, l.doing, l.left
		before := l.kept.Before(start) // What is kept after Close was called has ended from the start.
		l.mu.Unlock()
		lapse, lost := l.lapse(l.Until()), same(l.Err(), redlock.ErrLost)
		if err == nil && kept && before && left.IsZero() && (doing || now.Before(lapse) && !lost) {
			h.failf("(7) Close of %s did not wait for %s, which is held until %v", c.name, l.name, h.offset(lapse))
		}
		switch {
		case doing, kept && left.IsZero() && lost:
			last = now
		case kept && left.IsZero():
			last = laterOf(last, l.latest(l.Until()))
		case kept:
			last = laterOf(last, left)
		}
	}
	if now.After(last.Add(c.timeout)) {
		h.failf("(7) Close of %s took until %v after all had ended", c.name, now.Sub(last))
	}
}

// checkEnded checks (4), long after the lock's end: every context has ended, and nothing
// has extended it behind their end.
func (l *heldLock) checkEnded() {
	s := l.s
	if err := l.observe("long after its end"); err == nil {
		s.failf("(4) %s is held after %v", l.name, s.offset(l.Until()))
	}
	l.mu.Lock()
	first, stopped, more := l.first, l.stopped, len(l.extensions)
	l.mu.Unlock()
	if !stopped.IsZero() && more == 0 && l.Until().After(stopped.Add(testkit.Validity(l.ttl))) {
		s.failf("(4) %s was extended to %v after its contexts had ended at %v", l.name, s.offset(l.Until()), s.offset(stopped))
	}
	if first != nil && first.ctx.Err() == nil {
		s.failf("(4) a context of %s has not ended", l.name)
	}
}
