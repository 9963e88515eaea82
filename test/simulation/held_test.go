package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Held locks: a few locks are kept by KeepAlive and by Do while nodes hang, die, come back, are slow or lose keys, and
// are ended by Unlock, Close, the caller's context, the max hold or a jump of the wall clock. The end of every hold
// context is compared to the nanosecond with what must have ended it. What is checked of promise (4) here:
//
//   - a hold context never ends later than the lock's Until, nor without the reason that its cause names
//   - the Until of a lock that has ended never moves
//
// and of promise (6): while a quorum of nodes is well and nobody ends the lock, it goes on.
//
// A node that is not faulty is never late and never loses a key, but may forget the scripts.
type heldSim struct {
	*sim

	ttl    time.Duration // the scale of the run: ttls are once to twice that
	settle time.Duration // within which a healthy node has answered all that was sent to it
	span   time.Duration // for which things happen
	shared bool          // the locks want the same resources
	held   []*heldLock   // guarded by mu
}

// heldLate is the longest delay of bytes that are delivered after their connection has broken.
const heldLate = 500 * time.Millisecond

func runHeld(s *sim) {
	h := &heldSim{sim: s}
	h.prepare()
	s.tracef("%d nodes, ttl %v, settle %v, span %v, loss %v, shared %v", len(s.nodes), h.ttl, h.settle, h.span, s.loss, h.shared)
	for i := range testkit.Pick(s.rng, 1, 1, 2, 3) {
		a := &heldActor{simCaller{s: s, c: testkit.Pick(s.rng, s.clients...), rng: s.newRand(), name: fmt.Sprintf("lock%d", i+1)}, h}
		s.wg.Go(a.run)
	}
	s.moveClocks(h.span, 2*h.ttl)
	for _, c := range s.clients {
		if rng := s.newRand(); rng.IntN(4) == 0 {
			at, limit := testkit.Between(rng, 0, h.span), testkit.Pick(rng, testkit.Magnitude(rng, time.Millisecond, h.span), simUnhurried)
			s.wg.Go(func() {
				time.Sleep(at)
				_, _, _ = c.close(limit)
			})
		}
	}
	h.fail()
	s.wg.Wait()
	h.finish()
}

func (h *heldSim) prepare() {
	s, rng := h.sim, h.rng
	n := testkit.Pick(rng, 3, 3, 3, 3, 5, 5, 5, 1, 2, 4, 6, 7, 9)
	h.ttl = testkit.Magnitude(rng, 30*time.Millisecond, 5*time.Second)
	timeout := testkit.Pick(rng, 20*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond)
	s.cluster(n, testkit.Pick(rng, 0, min(h.ttl/60, timeout/20)))
	h.settle = s.nodes[0].settle()
	h.span = testkit.Between(rng, h.ttl, testkit.Pick[time.Duration](rng, 4, 4, 12)*h.ttl)
	h.shared = rng.IntN(2) == 0
	s.loss, s.excuse = rng.IntN(2) == 0, true
	s.slowest = []time.Duration{h.ttl / 100, h.ttl / 10, h.ttl}
	spare := n - s.need
	s.makeFaulty(testkit.Pick(rng, 0, rng.IntN(spare+1), rng.IntN(spare+1), spare, rng.IntN(n+1)))
	late := rng.IntN(3) == 0
	for _, n := range s.nodes {
		if n.faulty && late {
			n.Proxy().LateBytes(0, heldLate)
		}
	}
	for range testkit.Pick(rng, 1, 1, 2) {
		s.openClient(simOptions{timeout: testkit.Pick(rng, timeout, timeout, 2*timeout)})
	}
}

// fail has nodes fail in one way after the other.
func (h *heldSim) fail() {
	s, faults := h.sim, simFaults
	if h.loss {
		faults = slices.Concat(simFaults, simDataLosses, simKeyLosses)
	}
	s.endure(&s.wg, simWeather{
		faults: faults, times: 1 + s.rng.IntN(3), end: h.start.Add(h.span),
		quiet: [2]time.Duration{h.span / 16, h.span / 2}, length: [2]time.Duration{time.Millisecond, h.span},
	})
	for _, n := range s.nodes {
		if rng := s.newRand(); !n.faulty && rng.IntN(3) == 0 {
			s.wg.Go(func() { n.forgetAtRandom(rng, h.span, h.start.Add(h.span)) })
		}
	}
}

// finish checks what is left when everything has ended.
func (h *heldSim) finish() {
	s := h.sim
	synctest.Wait()
	time.Sleep(h.settle)
	if len(s.healthy()) < len(s.nodes) {
		time.Sleep(node.Silence(s.longestTimeout()) + 2*time.Second + heldLate)
	}
	synctest.Wait()
	s.checkLeftovers()
	time.Sleep(time.Until(h.over())) // Contexts that nobody has ended before.
	for _, l := range h.allHeld() {
		time.Sleep(time.Until(l.Until()))
	}
	synctest.Wait()
	for _, l := range h.allHeld() {
		l.checkEnded()
	}
}

// over is when the last callers' contexts end.
func (h *heldSim) over() time.Time { return h.start.Add(4 * h.span) }

func (h *heldSim) allHeld() []*heldLock {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.held)
}

// A heldActor takes one lock and does things with it.
type heldActor struct {
	simCaller
	h *heldSim
}

// A heldLock is a lock that is kept.
type heldLock struct {
	*simLock
	h     *heldSim
	first *heldContext // has been kept from the beginning; guarded by mu
}

// A heldContext is a context that KeepAlive or Do has made.
type heldContext struct {
	l      *heldLock
	ctx    context.Context //nolint:containedctx // It is what is tested.
	called time.Time
	end    time.Time // of its caller's context
}

var errHeldCaller = errors.New("the caller has ended")

// caller returns a context that ends within the span in one of three cases, and after all else otherwise.
func (a *heldActor) caller() (ctx context.Context, cancel context.CancelFunc, end time.Time) {
	end = a.h.over()
	if a.rng.IntN(3) == 0 {
		end = time.Now().Add(testkit.Between(a.rng, 0, a.h.span))
	}
	ctx, cancel = context.WithDeadlineCause(a.s.t.Context(), end, errHeldCaller)
	return ctx, cancel, end
}

func (a *heldActor) run() {
	h, rng := a.h, a.rng
	time.Sleep(testkit.Between(rng, 0, h.span/4))
	ask := simAsk{resources: []string{a.name}, ttl: testkit.Between(rng, h.ttl, 2*h.ttl)}
	ask.opts = []redlock.Option{redlock.WithRetryCount(3), redlock.WithRetryDelay(h.ttl / 3)}
	if rng.IntN(5) == 0 {
		ask.o.maxHold = testkit.Magnitude(rng, h.ttl/2, h.span)
	}
	ask.o.fencing = h.seed%2 == 0 // Extensions and repairs keep counters, too.
	if h.shared {
		ask.resources = []string{"a"}
	}
	if rng.IntN(4) == 0 {
		ask.resources = append(ask.resources, testkit.Pick(rng, "a", "b"))
	}
	if rng.IntN(2) == 0 {
		a.do(ask)
		return
	}
	lock, err := a.acquire(h.t.Context(), ask)
	if err != nil {
		return
	}
	l := a.keep(lock)
	if rng.IntN(10) > 0 {
		a.keepAlive(l)
	}
	a.live(l)
	if rng.IntN(8) == 0 {
		h.tracef("%s is abandoned", l.name)
		return
	}
	if rng.IntN(4) == 0 {
		// At the same instant as an extension, or while it is on its way.
		h.wg.Go(func() { _ = a.extend(h.t.Context(), time.Time{}, lock, ask.ttl) })
		time.Sleep(testkit.Between(rng, 0, h.nodes[0].delays[0]))
	}
	a.release(l)
}

// do uses Do.
func (a *heldActor) do(ask simAsk) {
	h, start := a.h, time.Now()
	parent, cancel, end := a.caller()
	defer cancel()
	failure := testkit.Pick(a.rng, nil, errors.New("failure of the work"))
	var l *heldLock
	err := a.c.r.Do(parent, ask.resources, ask.ttl, func(ctx context.Context, lock *redlock.Lock) error {
		l = a.keep(a.c.acquired(lock, a.name+" of Do", start, ask))
		l.watch(ctx, end)
		a.live(l) //nolint:contextcheck // What it does has callers of its own.
		if a.rng.IntN(6) == 0 {
			a.release(l) //nolint:contextcheck // As above.
		}
		l.noteRelease()
		return failure
	}, ask.options()...)
	h.tracef("%s Do: %v", a.name, err)
	if l == nil {
		meant := errors.Is(err, redlock.ErrTaken) || errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, redlock.ErrClosed) && a.c.isClosed() ||
			errors.Is(err, redlock.ErrMaxHold) || parent.Err() != nil // The lock may have taken so long that it was over at once.
		if !meant {
			a.s.failf("(8) %s could not lock: %v", a.name, err)
		}
		return
	}
	if cause := context.Cause(l.first.ctx); failure != nil && !errors.Is(err, failure) || errors.Is(cause, redlock.ErrLost) && !errors.Is(err, cause) {
		h.failf("(8) Do of %s returns %v, and its context has ended with %v", l.name, err, cause)
	}
	l.noteUnlocked()
	if err == nil {
		l.checkReleased()
	}
}

// keep enters a lock that was got. It is secure if nothing but its callers and the clock can end it.
func (a *heldActor) keep(lock *simLock) *heldLock {
	h := a.h
	l := &heldLock{simLock: lock, h: h}
	l.shared = true
	h.mu.Lock()
	h.held = append(h.held, l)
	h.mu.Unlock()
	h.wg.Go(func() {
		time.Sleep(h.settle)
		have := 0
		for _, n := range h.healthy() {
			if n.has(lock) {
				have++
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.secure = have >= h.need && l.released.IsZero()
	})
	return l
}

func (a *heldActor) keepAlive(l *heldLock) {
	called := time.Now()
	ctx, cancel, end := a.caller()
	context.AfterFunc(ctx, cancel)
	l.watch(l.KeepAlive(ctx), end)
	if now := time.Now(); !now.Equal(called) {
		l.s.failf("(7) KeepAlive of %s took %v", l.name, now.Sub(called))
	}
}

// watch looks at the end of a hold context that was just made.
func (l *heldLock) watch(ctx context.Context, end time.Time) {
	c := &heldContext{l: l, ctx: ctx, called: time.Now(), end: end}
	if got, ok := redlock.FromContext(ctx); !ok || got != l.Lock {
		l.s.failf("(4) FromContext of %s: %v", l.name, got)
	}
	l.mu.Lock()
	if l.first == nil && c.called.Equal(l.from) {
		l.first = c
	}
	l.mu.Unlock()
	context.AfterFunc(ctx, c.ended)
}

// live does things with the lock for a time.
func (a *heldActor) live(l *heldLock) {
	h, rng := a.h, a.rng
	end := time.After(testkit.Between(rng, 0, h.span))
	var ended <-chan struct{}
	if l.first != nil && rng.IntN(4) > 0 {
		ended = l.first.ctx.Done()
	}
	for range 1 + rng.IntN(4) {
		select {
		case <-ended:
			if rng.IntN(2) == 0 {
				time.Sleep(testkit.Magnitude(rng, 1, h.ttl)) // The work takes a while to stop.
			}
			return
		case <-end:
			return
		case <-time.After(testkit.Magnitude(rng, time.Millisecond, h.span)):
		}
		_ = l.check("in use")
		switch rng.IntN(8) {
		case 0, 1:
			a.keepAlive(l)
		case 2:
			life := testkit.Between(rng, h.ttl/2, 2*h.ttl)
			h.wg.Go(func() { _ = a.extend(h.t.Context(), time.Time{}, l.simLock, life) })
		case 3:
			time.Sleep(time.Until(l.Until()) - testkit.Magnitude(rng, 1, time.Millisecond))
			return
		}
	}
	select {
	case <-ended:
	case <-end:
	}
}

// release releases the lock, again if it failed.
func (a *heldActor) release(l *heldLock) {
	h := a.h
	for {
		l.mu.Lock()
		secure := l.secure
		l.mu.Unlock()
		late := !time.Now().Before(l.lapse(l.Until()))
		err := a.unlock(h.t.Context(), l.simLock)
		switch {
		case err == nil:
			l.checkReleased()
			return
		case secure && !late && !l.c.isClosed():
			h.failf("(6) Unlock of %s, which a quorum of nodes has: %v", l.name, err)
		}
		if !errors.Is(err, redlock.ErrNoQuorum) || a.rng.IntN(2) == 0 {
			return
		}
		time.Sleep(testkit.Magnitude(a.rng, time.Millisecond, h.ttl))
	}
}

// ended is called at the instant at which the context ends. It checks (4) and (6).
func (c *heldContext) ended() {
	l := c.l
	now, until, cause := time.Now(), l.Until(), context.Cause(c.ctx)
	l.s.tracef("%s: a context ends: %v, until %v", l.name, cause, l.s.offset(until))
	c.checkLate(now, until)
	c.checkCause(now, until, cause)
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

// checkLate checks that nothing has ended the context that should have ended it before. A jump is noticed within 100 ms.
func (c *heldContext) checkLate(now, until time.Time) {
	l, latest, lapse := c.l, until, until
	for _, j := range l.jumps(until) {
		lapse = lapse.Add(-j.by)
		latest = earlierOf(latest, laterOf(lapse, j.at.Add(100*time.Millisecond)))
	}
	for what, at := range map[string]time.Time{
		"Until": latest, "its caller": c.end, "Unlock": l.releasedAt(), "Close": l.c.closedAt(), "the max hold": l.limit(),
	} {
		if late := now.Sub(laterOf(at, c.called)); !at.IsZero() && late > time.Millisecond || what == "Until" && late > 0 {
			l.s.failf("(4) a context of %s ended %v after %s", l.name, late, what)
		}
	}
}

// checkCause checks that the context's cause has ended it.
func (c *heldContext) checkCause(now, until time.Time, cause error) {
	l, s := c.l, c.l.s
	l.mu.Lock()
	released, secure, first := l.released, l.secure, c == l.first
	l.mu.Unlock()
	before := func(t time.Time) bool { return t.IsZero() || now.Before(t) }
	lapse, lost := l.lapse(until), len(s.nodes)-s.need
	for _, n := range s.nodes {
		if !n.has(l.simLock) || n.hasLost(l.simLock) {
			lost--
		}
	}
	why := ""
	switch {
	case same(cause, redlock.ErrExpired) && now.Before(lapse):
		why = "it has not expired"
	case same(cause, redlock.ErrExpired) && first && secure && before(c.end) && before(l.limit()) && !lapse.Before(until),
		same(cause, redlock.ErrLost) && before(released) && secure:
		s.failf("(6) %s is over though a quorum of nodes is well: %v", l.name, cause)
	case same(cause, redlock.ErrLost) && before(released) && lost >= 0:
		why = "no quorum can have lost it"
	case same(cause, redlock.ErrMaxHold) && before(l.limit()):
		why = "the max hold is not over"
	case same(cause, redlock.ErrClosed) && before(l.c.closedAt()):
		why = "its client was not closed"
	case same(cause, context.Canceled) && before(released):
		why = "it was not released"
	case same(cause, errHeldCaller) && before(c.end):
		why = "its caller has not ended"
	case !slices.ContainsFunc([]error{
		redlock.ErrExpired, redlock.ErrLost, redlock.ErrMaxHold, redlock.ErrClosed, context.Canceled, errHeldCaller,
	}, func(known error) bool { return same(cause, known) }):
		why = "that is no reason"
	}
	if why != "" {
		s.failf("(4) a context of %s has ended with %v, but %s", l.name, cause, why)
	}
}

// checkReleased checks (5) on the nodes that are well.
func (l *heldLock) checkReleased() {
	time.Sleep(l.h.settle)
	l.s.mu.Lock()
	rough := l.c.rough
	l.s.mu.Unlock()
	for _, n := range l.s.healthy() {
		if !rough && n.hasAny(l.simLock) {
			l.s.failf("(5) %s has keys of %s after its release", n.Name(), l.name)
		}
	}
	_ = l.observe("after its release")
}

// checkEnded checks (4), long after the lock's end: every context has ended.
func (l *heldLock) checkEnded() {
	s := l.s
	if err := l.observe("long after its end"); err == nil {
		s.failf("(4) %s is held after %v", l.name, s.offset(l.Until()))
	}
	if l.first != nil && l.first.ctx.Err() == nil {
		s.failf("(4) a context of %s has not ended", l.name)
	}
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
