package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/lease"
)

// KeepAlive extends the lock by its ttl again and again, whenever a bit less than a third of the validity is over (less
// [WithStopTime]'s time), until it is released. It returns a context derived from ctx that ends when the lock
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
// After ErrStopTime, ErrMaxHold and ErrClosed the lock is still held until Until, so that the work can be finished;
// WithStopTime says for how long that is at least. KeepAlive stops extending, but Extend still works. Close waits until
// the lock is unlocked or has ended. Unlock it when you are done, as always. The end of ctx ends the extensions, but
// releases nothing.
//
// Called again, KeepAlive returns a further context of the same kind: the lock is extended as long as one of them has
// not ended. On a lock that has ended, after Close, and with a ctx that is done, the context is done from the start,
// with the cause given above; after Unlock the cause is ErrLost. KeepAlive panics if ctx is nil.
func (l *Lock) KeepAlive(ctx context.Context) context.Context {
	must(misused(ctx, l.invalid()))
	return l.keepAlive(l.r.events.Call(ctx))
}

// keepAlive is KeepAlive for a call whose events already have a number, such as Do.
func (l *Lock) keepAlive(ctx context.Context) context.Context {
	outer, _ := ctx.Value(locksKey{}).(*contextLocks)
	kept, cancel := context.WithCancelCause(context.WithValue(ctx, locksKey{}, &contextLocks{l, outer}))
	if err := l.keep(kept, cancel); err != nil {
		cancel(err)
	}
	return kept
}

// A hold extends one lock, and ends the contexts that KeepAlive has returned, by the rules of [lease.Hold]. It needs a
// goroutine only while an extension is under way. The lock's mu guards its fields.
//
// A hold counts as a running call, so that Close waits for the lock's release.
type hold struct {
	rules   lease.Hold
	lock    *Lock
	values  context.Context //nolint:containedctx // The first KeepAlive's, for the hook.
	kept    []keptContext
	timer   *time.Timer
	emitted bool // its end was counted, and its event sent
}

type keptContext struct {
	ctx    context.Context //nolint:containedctx // It is asked whether it has ended.
	cancel context.CancelCauseFunc
}

// keep adds ctx to the contexts that end with the lock. An error says why ctx must end at once.
func (l *Lock) keep(ctx context.Context, cancel context.CancelCauseFunc) error {
	if ctx.Err() != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h, now := l.hold, time.Now()
	if h == nil {
		h = &hold{lock: l, values: ctx, rules: lease.Hold{Lease: &l.rules, Validity: l.terms.validity, StopTime: l.o.stopTime, MaxHold: l.o.maxHold}}
	}
	if why := h.rules.Check(now); why != lease.Undecided {
		return verdictError(why)
	}
	if l.hold == nil {
		if err := l.r.watch.Keep(h); err != nil {
			return err
		}
		l.hold = h
	}
	if len(h.kept) == cap(h.kept) {
		// KeepAlive may be called for each request, while the next extension is hours away.
		h.forgetEnded()
		h.kept = slices.Grow(h.kept, len(h.kept)+1)
	}
	h.kept = append(h.kept, keptContext{ctx, cancel})
	h.rules.Keep(now)
	h.armLocked(now)
	return nil
}

// armLocked sets the timer. lock.mu is held.
func (h *hold) armLocked(now time.Time) {
	d, any := h.rules.Due(now)
	switch {
	case !any:
	case h.timer == nil:
		h.timer = time.AfterFunc(d, h.run)
	default:
		h.timer.Reset(max(d, 1))
	}
}

// run is called by the timer, and makes an extension if one is due. An extension that is under way when the lock ends
// changes nothing any more.
func (h *hold) run() {
	ctx := h.tick()
	if ctx == nil {
		return
	}
	l := h.lock
	err := l.extend(ctx, l.terms, h)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if h.rules.Extended(err == nil, now) {
		h.tellRisk(ctx, err, now)
	}
	h.armLocked(now)
}

// tick carries out what is due. If that is an extension, tick returns the context for it, which has the values of the
// caller's context but never ends. Contexts that have ended with the caller's are forgotten; when none is left, the
// extensions end.
func (h *hold) tick() (extend context.Context) {
	l := h.lock
	l.mu.Lock()
	now := time.Now()
	h.forgetEnded()
	e := h.rules.Tick(now, len(h.kept) > 0)
	end := func() {}
	if e.Has(lease.Inform) {
		end = h.endLocked(now)
	}
	if e.Has(lease.Extend) {
		extend = context.WithoutCancel(h.kept[0].ctx)
	}
	h.armLocked(now)
	l.mu.Unlock()
	end()
	if e.Has(lease.Leave) {
		h.leave()
	}
	return extend
}

// forgetEnded forgets the contexts that have ended with the caller's. lock.mu is held.
func (h *hold) forgetEnded() {
	h.kept = slices.DeleteFunc(h.kept, func(k keptContext) bool { return k.ctx.Err() != nil })
}

// Jumped is called when the clock's lead has grown.
func (h *hold) Jumped() {
	h.lock.mu.Lock()
	defer h.lock.mu.Unlock()
	now := time.Now()
	h.rules.Jumped(now)
	h.armLocked(now)
}

// Closed is called by Close.
func (h *hold) Closed() {
	h.lock.mu.Lock()
	end := h.overLocked(lease.Closed, time.Now())
	h.lock.mu.Unlock()
	end()
}

// overLocked ends the hold for the reason why, unless it has ended; see endLocked.
func (h *hold) overLocked(why lease.Verdict, now time.Time) (end func()) {
	if !h.rules.Over(why) {
		return func() {}
	}
	h.armLocked(now)
	return h.endLocked(now)
}

// endLocked tells that the hold has ended, and returns a function that ends its contexts, which
// is to be called without lock.mu: it may run code of the caller's.
func (h *hold) endLocked(now time.Time) (end func()) {
	if h.lock.rules.Release != lease.BeingReleased { // endUnlock tells the end by a release, whose votes may show a loss.
		h.tell(h.rules.Cause, now)
	}
	kept, cause := h.kept, verdictError(h.rules.Cause)
	h.kept = nil
	return func() {
		for _, k := range kept {
			k.cancel(cause)
		}
	}
}

// leave is called when the lock has been released or has ended: Close need not wait for it any more.
func (h *hold) leave() {
	h.timer.Stop()
	h.lock.r.watch.Leave(h)
}

// tellRisk sends the event that an extension has failed with err and the end of the hold is near. lock.mu is held.
func (h *hold) tellRisk(ctx context.Context, err error, now time.Time) {
	e := h.lock.event(EventHoldAtRisk, OpExtend)
	e.Err, e.Held = err, h.lock.rules.HeldFor(now)
	h.lock.r.send(ctx, e)
}

// tell counts the end of the hold, and sends its event. lock.mu is held.
func (h *hold) tell(why lease.Verdict, now time.Time) {
	h.emitted = true
	cause := verdictError(why)
	if why == lease.NoQuorum {
		cause = nil // The release was not confirmed, which is no loss.
	}
	h.lock.r.counts.HoldsEnded.count(cause)
	if h.lock.r.wants(h.values, EventHoldEnded, cause) {
		e := h.lock.event(EventHoldEnded, OpExtend)
		e.Err = cause
		if h.lock.rules.Ended == lease.Undecided {
			e.Held = h.lock.rules.HeldFor(now) // After a limit and ErrClosed the lock goes on.
		}
		h.lock.r.send(h.values, e)
	}
}
