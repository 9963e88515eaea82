package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A simCaller is one goroutine that uses a client.
type simCaller struct {
	s    *sim
	c    *simClient
	rng  *rand.Rand
	name string
	made int // locks
}

// context returns a context that in some cases ends within the limit, and when: a zero
// time is never.
func (w *simCaller) context(limit time.Duration) (ctx context.Context, cancel context.CancelFunc, end time.Time) {
	end = time.Now().Add(testkit.Between(w.rng, 0, limit))
	switch w.rng.IntN(6) {
	case 0:
		ctx, cancel := context.WithDeadline(w.s.t.Context(), end)
		return ctx, cancel, end
	case 1:
		ctx, cancel := context.WithCancel(w.s.t.Context())
		stop := time.AfterFunc(time.Until(end), cancel)
		return ctx, func() { stop.Stop(); cancel() }, end
	default:
		return w.s.t.Context(), func() {}, time.Time{}
	}
}

// A simAsk is a call of Lock or TryLock.
type simAsk struct {
	try       bool
	resources []string
	ttl       time.Duration
	o         simOptions
	opts      []redlock.Option // others
	end       time.Time        // of the call's context, zero if it has none
	bound     time.Duration    // of the call; 0: it has none
}

func (a simAsk) options() []redlock.Option { return slices.Concat(a.opts, a.o.options()) }

// acquire calls Lock or TryLock and checks how it ends.
func (w *simCaller) acquire(ctx context.Context, ask simAsk) (*simLock, error) {
	s, what, call := w.s, "Lock", w.c.r.Lock
	if ask.try {
		what, call = "TryLock", w.c.r.TryLock
	}
	s.tracef("%s %s %q ttl %v, within %v, context until %v", w.name, what, ask.resources, ask.ttl, ask.bound, s.offset(ask.end))
	start := time.Now()
	lock, err := call(ctx, ask.resources, ask.ttl, ask.options()...)
	w.checkEnd(what, start, ask.bound, ask.end, true)
	if err != nil {
		s.tracef("%s %s: %v", w.name, what, err)
		w.checkLockError(ctx, what, err, ask)
		return nil, err
	}
	w.made++
	l := w.c.acquired(lock, fmt.Sprintf("%s#%d", w.name, w.made), start, ask)
	_ = l.check("acquired")
	return l, nil
}

// checkEnd checks (7): a call ends within its bound, at once when its context
// ends and, if it acquires, at once when the client is closed.
func (w *simCaller) checkEnd(what string, start time.Time, bound time.Duration, end time.Time, acquires bool) {
	now := time.Now()
	if took := now.Sub(start); bound > 0 && took > bound {
		w.s.failf("(7) %s of %s took %v, more than %v", what, w.name, took, bound)
	}
	for _, at := range []time.Time{end, w.c.closedAt()} {
		if at.Equal(end) || acquires {
			if late := now.Sub(laterOf(at, start)); !at.IsZero() && late > 0 {
				w.s.failf("(7) %s of %s ended %v after its context or the client", what, w.name, late)
			}
		}
	}
}

// extend calls Extend and checks how it ends, with a context that ends at end.
func (w *simCaller) extend(ctx context.Context, end time.Time, l *simLock, ttl time.Duration) error {
	s := w.s
	s.tracef("%s extends %s by %v, context until %v", w.name, l.name, ttl, s.offset(end))
	l.noteExtension(ttl)
	start, before := time.Now(), l.Until()
	err := l.Extend(ctx, ttl)
	now, until, released := time.Now(), l.Until(), l.releasedAt()
	least := start.Add(testkit.Validity(ttl))
	s.tracef("%s Extend %s: %v, until %v", w.name, l.name, err, s.offset(until))
	w.checkEnd("Extend", start, l.o.timeout, end, false)
	switch {
	case until.Before(before) && l.lapse(until).Before(l.lapse(before)): // After a jump, the wall clock counts.
		s.failf("(3) Extend of %s shortened it from %v to %v", l.name, s.offset(before), s.offset(until))
	case err != nil:
		w.checkExtendError(ctx, l, err, before)
	case !released.IsZero() && now.After(released):
		s.failf("(4) Extend of %s succeeded after Unlock at %v", l.name, s.offset(released))
	case !now.Before(least) || until.Before(least):
		s.failf("(3) Extend of %s by %v at %v succeeded with Until %v", l.name, ttl, s.offset(start), s.offset(until))
	case !now.Before(before) && !l.shared:
		s.failf("(4) Extend of %s succeeded after Until, which was %v", l.name, s.offset(before))
	}
	_ = l.check("extended")
	return err
}

// unlock calls Unlock and checks how it ends: not with its context, which has no effect.
func (w *simCaller) unlock(ctx context.Context, l *simLock) error {
	s := w.s
	l.noteRelease()
	start := time.Now()
	late := !start.Before(l.lapse(l.Until()))
	err := l.Unlock(ctx)
	s.tracef("%s Unlock %s: %v", w.name, l.name, err)
	if err == nil {
		l.noteUnlocked()
	}
	w.checkEnd("Unlock", start, l.o.timeout, time.Time{}, false)
	w.checkUnlock(l, err, late)
	_ = l.check("released")
	return err
}

// checkUnlock checks the result of a release against the nodes. It was late if the lock
// had ended before.
func (w *simCaller) checkUnlock(l *simLock, err error, late bool) {
	s := w.s
	reason := w.quorumError("Unlock", err, redlock.OpUnlock, l.Resources())
	left := 0
	for _, n := range w.c.nodes {
		if l.o.minHold == 0 && l.o.turn == 0 && n.hasAny(l) && !n.mayHave(l.token) {
			left++
		}
	}
	switch {
	case err == nil && left > len(w.c.nodes)-w.c.need:
		s.failf("(5) Unlock of %s succeeded but %d nodes have its keys", l.name, left)
	case err != nil && reason == nil, errors.Is(reason, redlock.ErrTaken):
		s.failf("(8) Unlock of %s: %v", l.name, err)
	case errors.Is(err, redlock.ErrExpired):
		if !late {
			s.failf("(4) Unlock of %s before %v: %v", l.name, s.offset(l.lapse(l.Until())), err)
		}
	case errors.Is(reason, redlock.ErrLost) && !s.loss && time.Now().Before(l.lapse(l.Until())):
		// Until then its keys were there, and this holder has released it.
		s.failf("(4) Unlock of %s, which nobody can have taken away: %v", l.name, err)
	}
}

// quorumError checks the form of an error (8) and returns its reason, nil if it has no *QuorumError. That the votes are
// those of the nodes, and the reason follows from them, test/quorum shows.
func (w *simCaller) quorumError(what string, err error, op redlock.Op, resources []string) error {
	s := w.s
	var qe *redlock.QuorumError
	var reasons []error
	for _, reason := range []error{redlock.ErrTaken, redlock.ErrNoQuorum, redlock.ErrLost} {
		if errors.Is(err, reason) {
			reasons = append(reasons, reason)
		}
	}
	switch {
	case !errors.As(err, &qe):
		if slices.Contains(reasons, redlock.ErrTaken) || slices.Contains(reasons, redlock.ErrNoQuorum) {
			s.failf("(8) %s of %s: %v without votes", what, w.name, err)
		}
		return nil
	case len(reasons) != 1:
		s.failf("(8) %s of %s: %v matches %v", what, w.name, err, reasons)
		return nil
	case qe.Op != op || qe.Need != w.c.need || len(qe.Votes) != len(w.c.nodes) || !slices.Equal(qe.Resources, resources):
		s.failf("(8) %s of %s: %+v", what, w.name, qe)
	}
	return reasons[0]
}

// checkLockError checks what Lock and TryLock can fail with.
func (w *simCaller) checkLockError(ctx context.Context, what string, err error, ask simAsk) {
	s := w.s
	ended := ctx.Err() != nil && errors.Is(err, ctx.Err())
	closed := errors.Is(err, redlock.ErrClosed)
	reason := w.quorumError(what, err, redlock.OpLock, slices.Compact(slices.Sorted(slices.Values(ask.resources))))
	switch {
	case closed && !w.c.isClosed():
		s.failf("(7) %s of %s: %v", what, w.name, err)
	case reason == nil && !ended && !closed, errors.Is(reason, redlock.ErrLost):
		s.failf("(8) %s of %s: %v", what, w.name, err)
	}
}

// checkExtendError checks what an extension can fail with.
func (w *simCaller) checkExtendError(ctx context.Context, l *simLock, err error, before time.Time) {
	s := w.s
	reason := w.quorumError("Extend", err, redlock.OpExtend, l.Resources())
	lost := errors.Is(err, redlock.ErrLost)
	switch {
	case errors.Is(err, redlock.ErrExpired):
		if time.Now().Before(l.lapse(before)) {
			s.failf("(4) Extend of %s before Until: %v", l.name, err)
		}
	case lost && !s.loss && l.releasedAt().IsZero():
		s.failf("(4) Extend of %s, which nobody has released: %v", l.name, err)
	case reason == nil && !lost && (ctx.Err() == nil || !errors.Is(err, ctx.Err())), errors.Is(reason, redlock.ErrTaken):
		s.failf("(8) Extend of %s: %v", l.name, err)
	}
}
