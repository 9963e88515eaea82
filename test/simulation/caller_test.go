package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/waiting"
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
	attempts  int              // at most; 0: any number
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
		w.checkLockError(ctx, what, err, start, ask)
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
	closing := time.Time{}
	if acquires {
		closing = w.c.closedAt()
	}
	for _, end := range []time.Time{end, closing} {
		if end.IsZero() {
			continue
		}
		if end.Before(start) {
			end = start
		}
		if now.After(end) {
			w.s.failf("(7) %s of %s ended %v after its context or the client", what, w.name, now.Sub(end))
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
		w.checkExtendError(ctx, l, err, before, start)
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
	l.noteUnlocked(err)
	w.checkEnd("Unlock", start, l.o.timeout, time.Time{}, false)
	w.checkUnlock(l, err, late)
	_ = l.check("released")
	return err
}

// noteUnlocked notes how a release has ended.
func (l *simLock) noteUnlocked(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.unlocked.IsZero() {
		l.unlocked = time.Now()
	}
}

// checkUnlock checks the result of a release against the nodes. It was late if the lock
// had ended before.
func (w *simCaller) checkUnlock(l *simLock, err error, late bool) {
	s := w.s
	_, reason := w.quorumError("Unlock", err, redlock.OpUnlock, l.Resources(), 0)
	left := 0
	for _, n := range w.c.nodes {
		if l.o.minHold == 0 && l.o.turn == 0 && n.hasAny(l) && !n.mayHave(l.token) {
			left++
		}
	}
	switch {
	case err == nil && left > len(w.c.nodes)-w.c.need:
		s.failf("(5) Unlock of %s succeeded but %d nodes have its keys", l.name, left)
	case err != nil && reason == nil:
		s.failf("(8) Unlock of %s fails without a reason: %v", l.name, err)
	case errors.Is(err, redlock.ErrExpired):
		if !late {
			s.failf("(4) Unlock of %s before %v: %v", l.name, s.offset(l.lapse(l.Until())), err)
		}
	case errors.Is(reason, redlock.ErrLost) && !s.loss && time.Now().Before(l.lapse(l.Until())):
		// Until then its keys were there, and this holder has released it.
		s.failf("(4) Unlock of %s, which nobody can have taken away: %v", l.name, err)
	case errors.Is(reason, redlock.ErrTaken):
		s.failf("(8) Unlock of %s: %v", l.name, err)
	}
}

// A simTally counts votes as the documentation does.
type simTally struct{ yes, no, unanswered, pending int }

func tallyVotes(votes []redlock.Vote) (t simTally) {
	for _, v := range votes {
		switch {
		case v.Err == nil:
			t.yes++
		case errors.Is(v.Err, redlock.ErrTaken), errors.Is(v.Err, redlock.ErrLost):
			t.no++
		case errors.Is(v.Err, redlock.ErrPending):
			t.pending++
		default:
			t.unanswered++
		}
	}
	return t
}

// verdict is what votes amount to at the decision; nil, false: nothing yet. An extension does not fail for
// want of a quorum as long as those that are out may prove a loss, and a lock is not taken as long as silence may turn
// out to be the reason. A release by token alone counts only nodes
// that had the keys.
func (t simTally) verdict(op redlock.Op, need, n int) (reason error, decided bool) {
	spare := n - need
	switch {
	case op != redlock.OpLock && t.no > spare:
		return redlock.ErrLost, true
	case t.yes >= need:
		return nil, true
	case op == redlock.OpRelease && (t.yes+t.pending >= need || t.no+t.pending > spare):
		return nil, false
	case op == redlock.OpRelease:
		return redlock.ErrNoQuorum, true
	case op == redlock.OpUnlock && t.yes+t.no >= need && t.no+t.pending <= spare:
		return nil, true
	case op == redlock.OpExtend && t.no+t.pending > spare:
		return nil, false
	case t.unanswered > spare:
		return redlock.ErrNoQuorum, true
	case op == redlock.OpLock && t.no+t.unanswered > spare && t.unanswered+t.pending <= spare:
		return redlock.ErrTaken, true
	case op == redlock.OpExtend && t.no+t.unanswered > spare:
		return redlock.ErrNoQuorum, true
	}
	return nil, false
}

// onEvent is the clients' hook. It checks (8) where it can be exact: the event of a
// decision has the votes as they were.
func (c *simClient) onEvent(e redlock.Event) {
	s := c.s
	if s.verbose {
		s.tracef("  %s: %s %s %q, %v, votes %v, until %v", c.name, e.Kind, e.Op, e.Resources, e.Err, e.Votes, s.offset(e.Until))
	}
	if e.Kind == redlock.EventExtended && errors.Is(e.Err, redlock.ErrLost) {
		for _, l := range s.allLocks() {
			if l.c == c && l.Holder() == e.Holder {
				l.noteLoss()
			}
		}
	}
	if e.Kind != redlock.EventDecided && e.Kind != redlock.EventSettled {
		return
	}
	c.checkVotes("an event of "+c.name, e.Votes, e.Op)
	t := tallyVotes(e.Votes)
	if e.Kind == redlock.EventSettled {
		if t.pending > 0 && (e.Op != redlock.OpLock || !c.sawSplit()) {
			s.failf("(8) %s: settled with votes pending: %v", c.name, e.Votes)
		}
		return
	}
	want, decided := t.verdict(e.Op, c.need, len(c.nodes))
	// Where votes are split, not all are waited for; nor those of slow nodes once there is a refusal.
	for !decided && t.pending > 0 && e.Op == redlock.OpLock && (c.sawSplit() || t.no > 0 && errors.Is(e.Err, redlock.ErrTaken)) {
		t.unanswered, t.pending = t.unanswered+1, t.pending-1
		if want, decided = t.verdict(e.Op, c.need, len(c.nodes)); !same(want, e.Err) {
			want, decided = nil, false
		}
	}
	late := want == nil && (errors.Is(e.Err, redlock.ErrNoQuorum) || e.Op == redlock.OpExtend && errors.Is(e.Err, redlock.ErrExpired))
	switch {
	case decided && late && (e.Op == redlock.OpLock || e.Op == redlock.OpExtend): // A quorum, but too late; checked with the call's result.
	case decided && !same(e.Err, want):
		s.failf("(8) %s: %s %q was decided as %v, but by the votes as %v: %v", c.name, e.Op, e.Resources, e.Err, want, e.Votes)
	case !decided && (e.Err == nil || errors.Is(e.Err, redlock.ErrTaken) || errors.Is(e.Err, redlock.ErrNoQuorum) || errors.Is(e.Err, redlock.ErrLost)):
		s.failf("(8) %s: %s %q was decided as %v, but the votes decide nothing: %v", c.name, e.Op, e.Resources, e.Err, e.Votes)
	}
}

// checkVotes checks that all nodes are there, in order, with plausible votes.
func (c *simClient) checkVotes(what string, votes []redlock.Vote, op redlock.Op) {
	s := c.s
	longest := 2*max(c.timeout, slices.Max(simTimeouts)) + time.Microsecond // A timer that is due already takes 1 ns.
	names := make([]string, len(votes))
	for i, v := range votes {
		names[i] = v.Node
		switch {
		case errors.Is(v.Err, redlock.ErrTaken) && (op != redlock.OpLock || v.Holder == "" && v.HolderTTL > 2*waiting.ReservedFor):
			s.failf("(8) %s: %s vote of %s: taken by %q", what, op, v.Node, v.Holder)
		case errors.Is(v.Err, redlock.ErrLost) && op == redlock.OpLock:
			s.failf("(8) %s: lock vote of %s: lost", what, v.Node)
		case v.Took < 0 || v.Took > longest:
			s.failf("(8) %s: vote of %s took %v", what, v.Node, v.Took)
		}
	}
	for i, n := range c.nodes {
		if len(names) != len(c.nodes) || names[i] != n.Name() {
			s.failf("(8) %s: votes of %q", what, names)
			return
		}
	}
}

// quorumError checks the form of an error (8) and returns its reason, nil if it
// has no *QuorumError.
func (w *simCaller) quorumError(what string, err error, op redlock.Op, resources []string, attempts int) (*redlock.QuorumError, error) {
	s := w.s
	var qe *redlock.QuorumError
	if !errors.As(err, &qe) {
		for _, reason := range []error{redlock.ErrTaken, redlock.ErrNoQuorum} {
			if errors.Is(err, reason) {
				s.failf("(8) %s of %s: %v without votes", what, w.name, err)
			}
		}
		return nil, nil
	}
	var reasons []error
	for _, reason := range []error{redlock.ErrTaken, redlock.ErrNoQuorum, redlock.ErrLost} {
		if errors.Is(err, reason) {
			reasons = append(reasons, reason)
		}
	}
	if len(reasons) != 1 {
		s.failf("(8) %s of %s: %v matches %v", what, w.name, err, reasons)
		return qe, nil
	}
	w.c.checkVotes(what+" of "+w.name, qe.Votes, op)
	if qe.Op != op || qe.Need != w.c.need || !slices.Equal(qe.Resources, resources) {
		s.failf("(8) %s of %s: op %s, need %d, resources %q", what, w.name, qe.Op, qe.Need, qe.Resources)
	}
	if op == redlock.OpLock && (qe.Attempt < 1 || attempts > 0 && qe.Attempt > attempts) || op != redlock.OpLock && qe.Attempt != 0 {
		s.failf("(8) %s of %s: attempt %d of %d", what, w.name, qe.Attempt, attempts)
	}
	return qe, reasons[0]
}

// checkLockError checks what Lock and TryLock can fail with.
func (w *simCaller) checkLockError(ctx context.Context, what string, err error, start time.Time, ask simAsk) {
	s := w.s
	n, need := len(w.c.nodes), w.c.need
	ended := ctx.Err() != nil && errors.Is(err, ctx.Err())
	closed := errors.Is(err, redlock.ErrClosed)
	qe, reason := w.quorumError(what, err, redlock.OpLock, slices.Compact(slices.Sorted(slices.Values(ask.resources))), ask.attempts)
	switch {
	case closed && !w.c.isClosed():
		s.failf("%s of %s: %v", what, w.name, err)
	case qe == nil && !ended && !closed:
		s.failf("(8) %s of %s fails without a reason: %v", what, w.name, err)
	case qe == nil:
		// It ended before it asked anybody, or while it waited for somebody else of its
		// process to be answered: an attempt, and the time to begin to listen.
		patience := time.Duration(0)
		if what == "Lock" {
			patience = 3 * max(w.c.timeout, slices.Max(simTimeouts))
		}
		if now := time.Now(); now.After(start.Add(patience)) {
			s.failf("(8) %s of %s has no votes after %v: %v", what, w.name, now.Sub(start), err)
		}
	case errors.Is(reason, redlock.ErrLost):
		s.failf("(8) %s of %s: %v", what, w.name, err)
	}
	if qe == nil {
		return
	}
	// Votes may have come in between the decision and the error, but none goes
	// away; the events have them as they were.
	t := tallyVotes(qe.Votes)
	unheard := 0
	if w.c.sawSplit() {
		unheard = t.pending
	}
	switch {
	case errors.Is(reason, redlock.ErrTaken) && (t.no == 0 || t.no+t.unanswered+t.pending <= n-need):
		s.failf("(8) %s of %s is taken by these votes: %v", what, w.name, err)
	case errors.Is(reason, redlock.ErrNoQuorum) && !ended && !closed && t.unanswered+unheard <= n-need:
		// Or the quorum came too late.
		if t.yes < need || time.Since(start) < testkit.Validity(ask.ttl) && !w.c.jumpedSince(start) {
			s.failf("(8) %s of %s has no quorum by these votes: %v", what, w.name, err)
		}
	}
}

// checkExtendError checks what an extension can fail with.
func (w *simCaller) checkExtendError(ctx context.Context, l *simLock, err error, before, start time.Time) {
	s := w.s
	qe, reason := w.quorumError("Extend", err, redlock.OpExtend, l.Resources(), 0)
	lost := errors.Is(err, redlock.ErrLost)
	now := time.Now()
	switch {
	case errors.Is(err, redlock.ErrExpired):
		if now.Before(l.lapse(before)) {
			s.failf("(4) Extend of %s before Until: %v", l.name, err)
		}
	case lost && !s.loss && l.releasedAt().IsZero():
		s.failf("(4) Extend of %s, which nobody has released: %v", l.name, err)
	case qe == nil && !lost && (ctx.Err() == nil || !errors.Is(err, ctx.Err())):
		s.failf("(8) Extend of %s fails without a reason: %v", l.name, err)
	case qe == nil && now.After(start):
		s.failf("(8) Extend of %s has no votes after %v: %v", l.name, now.Sub(start), err)
	case errors.Is(reason, redlock.ErrTaken):
		s.failf("(8) Extend of %s: %v", l.name, err)
	}
}
