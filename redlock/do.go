package redlock

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Do takes the lock as [Redlock.Lock] does, and calls fn with it as [Lock.Do] does: the lock is
// extended while fn runs, fn's context ends when the lock does, and the lock is released in the end.
//
// If fn was not called, the error matches ErrNotAcquired. It is Lock's error, or says that ctx,
// Close or a limit (see [Lock.KeepAlive]) ended the hold before fn could begin.
func (r *Redlock) Do(ctx context.Context, resources []string, ttl time.Duration, fn func(ctx context.Context, lock *Lock) error, opts ...Option) error {
	if fn == nil {
		return &waitError{op: OpLock, cause: errNilFunc}
	}
	a, err := r.newAcquisition(ctx, resources, ttl, opts)
	if err != nil {
		return err
	}
	defer r.calls.Exit()
	ctx = r.begin(r.events.Call(ctx), OpDo, a.resources)
	l, err := a.lock(ctx)
	if err != nil {
		return err
	}
	return l.runHeld(ctx, a.began, fn)
}

// Do calls fn with the lock, and releases it, also if fn panics. While fn runs, the lock is extended
// as by [Lock.KeepAlive], and fn's context ends when the lock does: fn must then stop what needs the
// lock. fn runs on the caller's goroutine. It may call Unlock itself.
//
// If fn was not called, the error matches ErrNotAcquired, though there was a lock: it had ended, or ctx, Close or a
// limit ended the hold before fn could begin. It is still released, unless an argument is nil.
//
// If fn was called, Do returns its error. ErrLost or ErrExpired is joined to it if the lock was lost before its
// release, even if fn succeeded: somebody else may have had the lock meanwhile. If fn fails after its context has
// ended because of WithStopTime, WithMaxHold or Close, the error matches ErrStopTime, ErrMaxHold or ErrClosed, too. A
// release that could not be confirmed is not a failure of the work: only the hook hears of it.
//
// fn's error never matches ErrNotAcquired, even if it is the error of another Lock or Do. errors.Is and errors.As
// find everything else that it matches, but errors.Unwrap does not lead to it.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context, lock *Lock) error) error {
	wrong := misused(ctx, l.invalid())
	if wrong == nil && fn == nil {
		wrong = errNilFunc
	}
	if wrong != nil {
		return &waitError{op: OpLock, cause: wrong}
	}
	if l.r.calls.Enter() == nil { // If not, Close has ended the hold. It waits for calls that have entered.
		defer l.r.calls.Exit()
	}
	began, begun := time.Now(), false
	defer func() {
		if !begun { // The tracer's Begin has panicked.
			_ = l.unlock(ctx)
		}
	}()
	ctx = l.r.begin(l.r.events.Call(ctx), OpDo, l.claim.resources)
	begun = true
	return l.runHeld(ctx, began, fn)
}

// errNoReturn is the error in the event of a Do whose function has panicked or ended its goroutine.
var errNoReturn = errors.New("redlock: the function has not returned")

func (l *Lock) runHeld(ctx context.Context, began time.Time, fn func(ctx context.Context, lock *Lock) error) (err error) {
	kept := l.keepAlive(ctx)
	returned := false
	defer func() {
		if l.o.freeOnError && (err != nil || !returned) && !l.released.begun.Load() {
			l.claim.keptUntil.Store(nil)
		}
		_ = l.unlock(ctx) // joinEnd adds its result, whoever began it.
		err = l.joinEnd(err, context.Cause(kept))
		outcome := err
		if !returned {
			outcome = errNoReturn
		}
		l.tell(ctx, EventDone, OpDo, began, outcome)
	}()
	if kept.Err() != nil { // The hold ended just after the lock was acquired, or Close was called.
		returned = true
		return &waitError{op: OpLock, resources: l.claim.resources, cause: cmp.Or(ctx.Err(), context.Cause(kept))}
	}
	l.use()
	err = fn(kept, l)
	returned = true
	if errors.Is(err, ErrNotAcquired) {
		err = fnError{err}
	}
	return err
}

// A fnError is an error of Do's function that matches ErrNotAcquired because it comes from another lock. Do's own error
// must not match, as the function was called. fnError has no Unwrap, through which errors.Is would find the match.
type fnError struct{ err error }

func (e fnError) Error() string { return e.err.Error() }

func (e fnError) Is(target error) bool { return target != ErrNotAcquired && errors.Is(e.err, target) }

func (e fnError) As(target any) bool { return errors.As(e.err, target) }

// joinEnd joins to err, the result of the work, how the lock itself ended. The lock's own state says that: its
// context's cause may be that of a lock around this one. Errors are compared without l.mu, as a user's error may use
// the lock meanwhile.
func (l *Lock) joinEnd(err, cause error) error {
	l.mu.Lock()
	before, held := l.released.loss, error(nil)
	if l.hold != nil {
		held = verdictError(l.hold.rules.Cause)
	}
	l.mu.Unlock()
	if err != nil && held != nil && errors.Is(cause, held) {
		err = join(err, held)
	}
	if before != nil {
		err = join(err, before)
	}
	return err
}

func join(err, cause error) error {
	if errors.Is(err, cause) {
		return err
	}
	return errors.Join(err, cause)
}
