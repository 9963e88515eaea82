package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// Extend sets the lock to end ttl, less the drift allowance, after the start of this call, on
// all nodes that still have it. It never shortens: Until becomes the later of the old and the
// new one. It takes at most the node timeout.
//
// After an error Until is as it was, nothing was deleted, and the lock is still held if it was
// and the error does not match ErrLost. The error is
//
//   - a *[QuorumError] with ErrNoQuorum: too few nodes answered, or so late that nothing is
//     left of the new ttl. Try again while the validity lasts;
//   - a *QuorumError with ErrLost: so many nodes said that their key is gone or another's that
//     no quorum is left. The lock is over;
//   - ErrExpired: Until has passed, or passed before the quorum came;
//   - ErrLost, without I/O: the lock was found lost before, or its release has begun;
//   - the context's error, if ctx ended first, without I/O if before the call;
//   - an error that names ttl, before any I/O, if it is not allowed.
//
// A lock that has ended is never extended again. Nodes that have lost the key (a restart
// without data, a flush) get it again in the background after a successful extension, so that a
// lock that is held for long does not decay.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	if err := l.invalid(); err != nil {
		return err
	}
	if ctx == nil {
		return errNilContext
	}
	return l.extend(ctx, ttl, nil)
}

// extend is Extend for a hold, or for a caller if h is nil.
func (l *Lock) extend(ctx context.Context, ttl time.Duration, h *hold) error {
	if err := l.o.checkTTL(ttl); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &waitError{op: OpExtend, resources: l.claim.resources, cause: err}
	}
	if h == nil { // A hold's extensions belong to the KeepAlive or Do.
		ctx = l.r.events.call(ctx)
	}
	began := time.Now()
	err := l.extendNow(ctx, ttl, h)
	l.tell(ctx, EventExtended, OpExtend, began, err)
	return err
}

// extendNow is extend with checked arguments.
func (l *Lock) extendNow(ctx context.Context, ttl time.Duration, h *hold) error {
	start, wall := time.Now(), l.r.wall()
	l.mu.Lock()
	lapse, err := l.until, l.errLocked(start)
	l.mu.Unlock()
	if err != nil {
		l.lost()
		return &waitError{op: OpExtend, resources: l.claim.resources, cause: err}
	}
	until := newDeadline(start, validity(ttl, l.o.driftFactor), wall)
	l.claim.Grow(ttl)
	rd := l.r.newRound(ctx, OpExtend, l.claim, extendCommand(l.claim.keys, l.claim.token, ttl, l.claim.fencing), node.Ask, decideExtend, 0)
	rd.until = until
	rd.extension = &extension{lapse: lapse, settle: func(ballots []ballot) { l.repair(ballots, ttl) }}
	timeout := l.o.nodeTimeout
	if h != nil {
		timeout = min(timeout, l.validity()/holdShare)
	}
	rd.ask(start, timeout)
	waited := rd.wait(ctx, nil)
	err = l.applyExtension(rd, h, start, until, waited)
	if errors.Is(err, ErrLost) {
		l.lost()
	}
	return err
}

// applyExtension applies the result of an extension. One whose lock was released
// or lost meanwhile changes nothing: the lock stays lost. Nor does one for a hold
// that has ended: it is not to be kept any more.
func (l *Lock) applyExtension(rd *round, h *hold, start time.Time, until deadline, waited error) error {
	v, _ := rd.result()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if err := l.errLocked(now); err != nil {
		return rd.fail(err)
	}
	if v == expired {
		v = granted // But only until the end that another extension has moved meanwhile.
	}
	switch {
	case v == granted && h != nil && h.over:
		return nil
	case v == granted && !until.passed(now, l.r.wall()):
		l.until = l.until.later(until)
		if start.After(l.extended) {
			l.extended = start
		}
		l.r.counters.extended.Add(1)
		return nil
	case v == granted:
		return rd.fail(ErrNoQuorum) // Too late to be worth anything.
	case v == lost:
		l.end(ErrLost, now)
		return rd.fail(ErrLost)
	case waited != nil:
		return &waitError{op: OpExtend, resources: l.claim.resources, cause: waited, last: rd.quorumError(ErrNoQuorum)}
	default:
		return orClosed(rd.fail(v.err()))
	}
}

// lost ends what hangs on the lock: an extension has found that it was lost, has
// expired or was released.
func (l *Lock) lost() {
	l.r.held.remove(l)
	l.mu.Lock()
	h := l.hold
	l.mu.Unlock()
	if h != nil {
		h.look()
	}
}
