package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/node"
)

// Extend sets the lock to end ttl, less the drift allowance, after the start of this call, on all nodes that still
// have it. It never shortens: Until becomes the later of the old and the new one. It takes at most the node timeout.
//
// After an error Until is as it was, nothing was deleted, and the lock is still held if it was
// and the error does not match ErrLost. The error is
//
//   - a *[QuorumError] with ErrNoQuorum: too few nodes answered, or they answered so late that
//     nothing is left of the new ttl. Try again while the validity lasts;
//   - a *QuorumError with ErrLost: so many nodes said that their key is gone or another's that
//     no quorum is left. The lock is over;
//   - ErrExpired: Until has passed, or passed before the quorum came;
//   - ErrLost, without I/O: the lock was found lost before, or its release has begun;
//   - the context's error, if ctx ended first, without I/O if before the call;
//   - an error that names ttl, before any I/O, if it is not allowed.
//
// A lock that has ended is never extended again. Nodes that have lost the key (by a restart without data or a flush)
// get it again in the background after a successful extension, so that a long-held lock does not decay.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	if err := misused(ctx, l.invalid()); err != nil {
		return err
	}
	le, err := l.r.terms(ttl, l.o)
	if err != nil {
		return err
	}
	return l.extend(l.r.events.Call(ctx), le, nil)
}

// extend is Extend for a caller, or for the hold h, whose extensions belong to its KeepAlive or Do.
func (l *Lock) extend(ctx context.Context, le *terms, h *hold) error {
	if err := ctx.Err(); err != nil {
		return &waitError{op: OpExtend, resources: l.claim.resources, cause: err}
	}
	ctx = l.r.begin(ctx, OpExtend, l.claim.resources)
	began := time.Now()
	err := l.extendNow(ctx, le, h)
	if errors.Is(err, ErrLost) {
		l.lost()
	}
	l.tell(ctx, EventExtended, OpExtend, began, err)
	return err
}

// extendNow is extend without its events.
func (l *Lock) extendNow(ctx context.Context, le *terms, h *hold) error {
	start, lead := l.r.clock.Now()
	l.mu.Lock()
	validUntil, err := l.rules.Until, l.errLocked(start)
	ask := l.wanted != nil && !l.isWanted
	l.mu.Unlock()
	if err != nil {
		return &waitError{op: OpExtend, resources: l.claim.resources, cause: err}
	}
	l.claim.grow(le.ttl)
	rd := l.r.newRound(ctx, l.claim, extendCommand(l.claim, le.ms, ask), lease.Extending, 0)
	rd.task.Lives = le.validity
	rd.lock = l
	rd.rules.Start, rd.rules.Validity, rd.rules.Lead, rd.rules.Valid = start, le.validity, lead, &validUntil
	timeout := l.o.nodeTimeout
	var rules *lease.Hold
	if h != nil {
		rules = &h.rules
		timeout = min(timeout, rules.Patience())
	}
	rd.ask(timeout)
	waited := rd.wait(ctx, nil)
	err = l.applyExtension(rd, rules, waited)
	l.bequeath(rd, time.Now())
	return err
}

// applyExtension applies the result of an extension; see [lease.Lease.Prolong].
func (l *Lock) applyExtension(rd *round, h *lease.Hold, waited error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch v := l.rules.Prolong(&rd.rules, h, time.Now()); {
	case v == lease.Undecided:
		return nil
	case v == lease.Granted:
		l.r.counts.Extended.Add(1)
		return nil
	case l.rules.Release != lease.Held: // Keys that the release has deleted were not lost.
		return rd.quorumError(verdictError(v))
	case v != lease.NoQuorum:
		return rd.fail(verdictError(v))
	case rd.rules.Verdict == lease.Undecided:
		return &waitError{op: OpExtend, resources: l.claim.resources, cause: waited, last: rd.quorumError(ErrNoQuorum)}
	default:
		return orClosed(rd.fail(verdictError(v)))
	}
}

// lost ends the holds of a lock that an extension has found lost, expired or released.
func (l *Lock) lost() {
	l.mu.Lock()
	h, ended := l.hold, l.rules.Ended != lease.Undecided
	l.mu.Unlock()
	if h != nil && ended {
		h.tick()
	}
}

// A lock that is held for long would decay: every node that restarts without its data, or is flushed, takes one vote
// from it. So after an extension that a quorum has granted, the nodes that reported the key missing get it again.
//
// This cannot make a second holder: in that very extension a quorum had this lock's token, so nobody else had one. A
// repair does not count for the extension. It may arrive at any time, even twice: it sets only missing keys, and
// shortens no key's life. Otherwise a repair is a lock request: it goes in order with the release on its connection,
// and the release is repeated if its outcome is unknown. The library sends no repair twice, and none after the lock has
// ended, which would leave a key that nobody wants.

// repair is called when every node has voted in a successful extension. Nobody writes to its ballots any more.
func (l *Lock) repair(rd *round) {
	ms := rd.task.Command.Args[1] // The extension's ttl.
	for i, b := range rd.rules.Ballots {
		if b.Stance != node.Gone {
			continue
		}
		heir := l.lockHeir()
		left, may := heir.rules.MayRepair(i, len(l.r.nodes), time.Now())
		heir.mu.Unlock()
		if !may {
			continue
		}
		n := l.r.nodes[i]
		r := &repairer{lock: l, loss: n.Has(&l.claim.Trace, i, node.MarkHeld)}
		r.task = node.Task{
			Kind: node.RepairRequest, Command: repairCommand(l.claim, ms), Trace: &l.claim.Trace, Receiver: r,
			Limit: l.o.nodeTimeout, Lives: rd.task.Lives, Within: min(left, l.o.nodeTimeout),
		}
		// By EVAL, as a repair is rare, and is not sent again if the server has forgotten the script.
		r.request = node.Request{Task: &r.task, Index: uint16(i), Eval: true}
		if err := n.Enqueue(&r.request, time.Now()); err != nil {
			r.Receive(i, node.Outcome{Err: err}, time.Time{})
		}
	}
}

// A repairer is a repair that is under way.
type repairer struct {
	lock    *Lock
	loss    bool // the node had the keys before
	task    node.Task
	request node.Request
}

func (r *repairer) Receive(i int, out node.Outcome, _ time.Time) {
	l := r.lock.lockHeir()
	defer l.mu.Unlock()
	l.rules.Repaired(i)
	if r.loss && out.Stance == node.Yes {
		l.r.counts.Repaired.Add(1)
	}
}
