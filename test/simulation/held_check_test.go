package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

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
