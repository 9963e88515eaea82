package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// KeepAlive extends the lock by its ttl again and again, whenever a third of the validity is
// over, until it is released. It returns a context derived from ctx that ends when the lock
// does. The cause of its end ([context.Cause]) says why:
//
//	ErrExpired        the validity ended, as too few nodes answered in time
//	ErrLost           a quorum is impossible: keys are gone, or another's
//	ErrStopTime       WithStopTime's time before Until has come, as too few nodes answered in time
//	ErrMaxHold        WithMaxHold's time is over
//	ErrClosed         Close was called
//	context.Canceled  Unlock was called
//
// or is that of ctx, if that one ended first.
//
// The context ends at Until at the latest, whatever an extension that is under way is doing. (After a suspend of the
// machine it ends at most 100 ms after the machine woke up.) A minority of nodes that fails never ends it.
//
// After ErrStopTime, ErrMaxHold and ErrClosed the lock is still held until Until, so that the work
// can be finished; WithStopTime says for how long that is at least. KeepAlive stops extending, but
// Extend still works. Close waits until the lock is unlocked or has ended. Unlock it when you are done, as always. The end of ctx ends the
// extensions, but releases nothing.
//
// Called again, KeepAlive returns a further context of the same kind: the lock is extended as long as one of them has
// not ended. On a lock that has ended, after Close, and with a ctx that is done, the context is done from the start,
// with the cause given above; after Unlock the cause is ErrLost. KeepAlive panics if ctx is nil.
func (l *Lock) KeepAlive(ctx context.Context) context.Context {
	must(misused(ctx, l.invalid()))
	return l.keepAlive(l.r.events.Call(ctx))
}

// keepAlive is KeepAlive for a call that has a name already, as that of Do.
func (l *Lock) keepAlive(ctx context.Context) context.Context {
	outer, _ := ctx.Value(locksKey{}).(*contextLocks)
	kept, cancel := context.WithCancelCause(context.WithValue(ctx, locksKey{}, &contextLocks{l, outer}))
	if err := l.keep(kept, cancel); err != nil {
		cancel(err)
	}
	return kept
}

// A hold keeps one lock: it extends it, and ends the contexts that KeepAlive has returned. It needs no goroutine but
// while an extension is on its way. Its fields are guarded by the lock's mu.
//
// It counts as a running call, so that Close waits for the lock's release.
type hold struct {
	lock    *Lock
	values  context.Context //nolint:containedctx // The first KeepAlive's, for the hook.
	kept    []keptContext
	expiry  *time.Timer // looks at the clock when the contexts must end
	next    *time.Timer // when the next extension is due
	busy    bool        // next is running, or the extension is
	warned  bool        // since the last extension that succeeded
	over    bool        // the contexts were ended
	cause   error       // set with over
	emitted bool        // its end was counted, and its event sent
}

type keptContext struct {
	ctx    context.Context //nolint:containedctx // It is asked whether it has ended.
	cancel context.CancelCauseFunc
}

// keep adds a context to those that end with the lock, or returns why it has ended.
func (l *Lock) keep(ctx context.Context, cancel context.CancelCauseFunc) error {
	if ctx.Err() != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h, now := l.hold, time.Now()
	if h == nil {
		h = &hold{lock: l, values: ctx}
	}
	if err := h.ended(now); err != nil {
		return err
	}
	if l.hold == nil {
		if err := l.r.watch.Keep(h); err != nil {
			return err
		}
		l.hold = h
		h.expiry = time.AfterFunc(h.remaining(now), h.check)
	}
	if len(h.kept) == cap(h.kept) {
		// It may be called with each request's context, and the next extension be hours away.
		h.forgetEnded()
		h.kept = slices.Grow(h.kept, len(h.kept)+1)
	}
	h.kept = append(h.kept, keptContext{ctx, cancel})
	h.schedule(time.Until(h.due()))
	return nil
}

// term is for how long after an extension the contexts go on without another one.
func (l *Lock) term() time.Duration { return l.validity - l.o.stopTime }

// left is for how long they go on, from now, unless a limit or a loss ends them. lock.mu is held.
func (h *hold) left(now time.Time) time.Duration {
	return h.lock.until.Remaining(h.lock.r.clock.At(now)) - h.lock.o.stopTime
}

// ended is why the contexts are to end now, nil if they are not. lock.mu is held.
func (h *hold) ended(now time.Time) error {
	l := h.lock
	err := l.errLocked(now)
	switch {
	case err != nil:
		return err
	case h.over:
		return h.cause
	case l.o.maxHold > 0 && now.Sub(l.start) >= l.o.maxHold:
		return ErrMaxHold
	case h.left(now) <= 0:
		return ErrStopTime
	}
	return nil
}

// pace is how long after the last extension the next one begins: a bit less than a third of the term that one gives,
// and not the same for all locks, so that those that were taken together are not extended together for ever.
func (h *hold) pace() time.Duration {
	third := h.lock.term() / 3
	return third - rand.N(third/10+1)
}

// due is when the next extension begins: a pace after the last one, and as long before Until as if that one had moved
// it. By the last one alone, an Extend by a short ttl would put the next one off beyond Until. lock.mu is held.
func (h *hold) due() time.Time {
	l, pace := h.lock, h.pace()
	after, before := l.extended.Add(pace), l.until.Mono.Add(pace-l.validity)
	if before.Before(after) {
		return before
	}
	return after
}

// schedule has the next extension begin after d, unless one is planned or on its way. lock.mu is held.
func (h *hold) schedule(d time.Duration) {
	if h.busy {
		return
	}
	h.busy = true
	if h.next == nil {
		h.next = time.AfterFunc(max(d, 0), h.extend)
	} else {
		h.next.Reset(max(d, 0))
	}
}

// remaining returns the time until the contexts, or then the lock, must end: because of the lock's
// validity, by the clock that says so first, or because of a limit.
func (h *hold) remaining(now time.Time) time.Duration {
	d, o := h.left(now), h.lock.o
	switch {
	case h.over:
		d += o.stopTime
	case o.maxHold > 0:
		d = min(d, h.lock.start.Add(o.maxHold).Sub(now))
	}
	return max(d, 0)
}

// extend makes one extension, on the goroutine of a timer. An extension that is
// on its way when the lock ends changes nothing any more; see Lock.Extend.
func (h *hold) extend() {
	l := h.lock
	ctx, ok := h.wanted()
	if !ok {
		return
	}
	err := l.extend(ctx, l.terms, h)
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	h.busy = false
	if h.over || l.ended != nil {
		return
	}
	if err == nil {
		h.warned = false
		h.schedule(h.due().Sub(now))
		return
	}
	if !h.warned && h.left(now) < l.term()/2 {
		h.warned = true
		e := l.event(EventHoldAtRisk, OpExtend)
		e.Err, e.Held = err, l.heldFor(now)
		l.r.send(ctx, e)
	}
	h.schedule(min(l.term()/20, time.Second))
}

// wanted says whether to extend, with a context for it that has only the values of the caller's. Contexts that have
// ended with the caller's are forgotten; with the last of them the extensions end.
func (h *hold) wanted() (context.Context, bool) {
	h.lock.mu.Lock()
	defer h.lock.mu.Unlock()
	h.forgetEnded()
	if h.over || len(h.kept) == 0 {
		h.busy = false
		return nil, false
	}
	return context.WithoutCancel(h.kept[0].ctx), true
}

// forgetEnded forgets the contexts that have ended with the caller's. lock.mu is held.
func (h *hold) forgetEnded() {
	h.kept = slices.DeleteFunc(h.kept, func(k keptContext) bool { return k.ctx.Err() != nil })
}

// check is the expiry timer, and runs when a clock has jumped: it ends the contexts
// if it is time, and comes back otherwise.
func (h *hold) check() {
	l := h.lock
	l.mu.Lock()
	now := time.Now()
	end := func() {}
	if why := h.ended(now); why != nil {
		end = h.endLocked(why, now)
	}
	err := l.errLocked(now)
	if err == nil { // The lock itself goes on to Until, also where a limit has ended the contexts.
		h.expiry.Reset(h.remaining(now))
	}
	leave := err != nil && l.released.stage != releasing // A release that is running leaves when it is through.
	l.mu.Unlock()
	end()
	if leave {
		h.leave()
	}
}

// Jumped is called when the clock's lead has grown, be it by slewing: the end may have
// come, or be so near that the next extension is overdue.
func (h *hold) Jumped() {
	h.check()
	l := h.lock
	l.mu.Lock()
	defer l.mu.Unlock()
	overdue := h.left(time.Now()) < l.term()*3/5
	if overdue && !h.over && h.busy && h.next.Stop() {
		h.next.Reset(0)
	}
}

// End ends the contexts for the reason cause, nil for a release.
func (h *hold) End(cause error) {
	h.lock.mu.Lock()
	end := h.endLocked(cause, time.Now())
	h.lock.mu.Unlock()
	end()
}

// endLocked ends the hold and returns a function that ends its contexts, which
// is to be called without lock.mu: it may run code of the caller's.
func (h *hold) endLocked(cause error, now time.Time) func() {
	if h.over {
		return func() {}
	}
	h.over, h.cause = true, cause
	if h.lock.released.stage != releasing { // endUnlock tells the end by a release, whose votes may show a loss.
		h.tell(cause, now)
	}
	if h.next != nil && h.next.Stop() {
		h.busy = false
	}
	kept := h.kept
	h.kept = nil
	return func() {
		for _, k := range kept {
			k.cancel(cause)
		}
	}
}

// tell counts the end of the hold, and sends its event. lock.mu is held.
func (h *hold) tell(cause error, now time.Time) {
	h.emitted = true
	if errors.Is(cause, ErrNoQuorum) {
		cause = nil // The release was not confirmed, which is no loss.
	}
	h.lock.r.counters.HoldsEnded.count(cause)
	if h.lock.r.wants(h.values, EventHoldEnded, cause) {
		e := h.lock.event(EventHoldEnded, OpExtend)
		e.Err = cause
		if h.lock.ended == nil {
			e.Held = h.lock.heldFor(now) // After a limit and ErrClosed the lock goes on.
		}
		h.lock.r.send(h.values, e)
	}
}

// leave is called when the lock has been released or has ended: Close need not wait for it any more.
func (h *hold) leave() {
	h.expiry.Stop()
	h.lock.r.watch.Leave(h)
}
