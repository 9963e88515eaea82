package redlock

import (
	"context"
	"errors"
	"slices"
	"time"
)

// scheduleSlack is how much later than the clock says something may happen that
// a timer brings about.
const scheduleSlack = time.Millisecond

// jumps returns the jumps of the wall clock since the lock was acquired, or
// extended, for the validity that ends at until.
func (l *scheduleLock) jumps(until time.Time) []scheduleJump {
	start := until.Add(-validity(l.ttl, l.o.driftFactor))
	l.mu.Lock()
	if other, ok := l.extensions[until]; ok {
		start = other
	}
	l.mu.Unlock()
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	jumps := slices.Clone(l.c.jumps)
	return slices.DeleteFunc(jumps, func(j scheduleJump) bool { return j.at.Before(start) })
}

// lapse is when a validity that ends at until by the monotonic clock ends by
// either clock, as both have been so far.
func (l *scheduleLock) lapse(until time.Time) time.Time {
	lapse := until
	for _, j := range l.jumps(until) {
		lapse = lapse.Add(-j.by)
		if lapse.Before(j.at) {
			return j.at
		}
	}
	return lapse
}

// latest is when the contexts of the lock must have ended: a jump is noticed
// within 100 ms.
func (l *scheduleLock) latest(until time.Time) time.Time {
	latest, lapse := until, until
	for _, j := range l.jumps(until) {
		lapse = lapse.Add(-j.by)
		by := lapse
		if noticed := j.at.Add(100 * time.Millisecond); by.Before(noticed) {
			by = noticed
		}
		if by.Before(latest) {
			latest = by
		}
	}
	return latest
}

// hurt returns on how many nodes the lock may have been found missing.
func (l *scheduleLock) hurt() int {
	hurt := 0
	for _, n := range l.s.nodes {
		if !n.has(l) || n.hurtSince(l, l.start) {
			hurt++
		}
	}
	return hurt
}

// ended is called at the instant at which the context ends. It checks (1), (2)
// and (3).
func (h *scheduleHold) ended() {
	l, s := h.l, h.l.s
	now, until, cause := time.Now(), l.Until(), context.Cause(h.ctx)
	s.tracef("%s: a context ends: %v, until %v", l.name, cause, s.offset(until))
	l.mu.Lock()
	unlocking, robbed := l.unlocking, l.robbed
	l.mu.Unlock()
	s.mu.Lock()
	closing := l.c.closing
	s.mu.Unlock()
	lapse, latest, limit := l.lapse(until), l.latest(until), time.Time{}
	if l.o.maxHold > 0 {
		limit = l.start.Add(l.o.maxHold)
	}
	before := func(t time.Time) bool { return t.IsZero() || now.Before(t) }

	// What must have ended it by now.
	noticed := time.Time{}
	if !robbed.IsZero() && l.isAlone() && !s.outage.overlaps(robbed, now) {
		noticed = robbed.Add(2*(l.ttl/3+s.settle()) + min(l.ttl/20, time.Second))
	}
	for _, end := range []struct {
		what string
		at   time.Time
	}{
		{"Until", latest},
		{"its caller", h.parent.endedAt()},
		{"Unlock", unlocking},
		{"Close", closing},
		{"the max hold", limit},
		{"the loss of all keys", noticed},
	} {
		if late := now.Sub(latestOf(end.at, h.called)); !end.at.IsZero() && late > scheduleSlack || end.what == "Until" && late > 0 {
			s.failf("(1) a context of %s ended %v after %s", l.name, late, end.what)
		}
	}

	// What has ended it.
	switch {
	case same(cause, ErrExpired):
		if now.Before(lapse) {
			s.failf("(2) %s has not expired before %v", l.name, s.offset(lapse))
		}
		if h == l.firstHold() && l.isSecure() && l.wasKept() && !lapse.Before(until) && !l.isOutage(until) {
			s.failf("(3) %s has expired though a quorum of nodes is well", l.name)
		}
	case same(cause, ErrLost):
		if hurt := l.hurt(); hurt <= len(s.nodes)-s.need && before(unlocking) {
			s.failf("(2) %s is lost, but only %d of %d nodes can have lost it", l.name, hurt, len(s.nodes))
		}
		if l.isSecure() && before(unlocking) {
			s.failf("(3) %s is lost though a quorum of nodes is well", l.name)
		}
	case same(cause, ErrMaxHold):
		if before(limit) {
			s.failf("(2) the max hold of %s ends at %v", l.name, s.offset(limit))
		}
	case same(cause, ErrClosed):
		if before(closing) {
			s.failf("(2) %s was not closed", l.c.name)
		}
	case same(cause, context.Canceled):
		if before(unlocking) {
			s.failf("(2) %s was not released", l.name)
		}
	case same(cause, h.parent.why):
		if before(h.parent.endedAt()) {
			s.failf("(2) the caller of %s has not ended", l.name)
		}
	default:
		s.failf("(2) a context of %s has ended for the reason %v", l.name, cause)
	}
	if h == l.firstHold() {
		l.checkMoves(until, now)
	}
	if same(cause, ErrMaxHold) || same(cause, ErrClosed) {
		l.mu.Lock()
		l.stopped = now
		l.mu.Unlock()
	}
	if errors.Is(cause, ErrLost) {
		l.mu.Lock()
		if l.final.IsZero() {
			l.final = until
		}
		l.mu.Unlock()
	}
}

func latestOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// isAlone reports whether all nodes are healthy, so that what happens to a lock
// is noticed in time.
func (l *scheduleLock) isAlone() bool { return len(l.s.healthy()) == len(l.s.nodes) }

// wasKept reports whether the lock has been kept from the beginning until now.
func (l *scheduleLock) wasKept() bool {
	h := l.firstHold()
	if h == nil || h.parent.endedAt() != (time.Time{}) {
		return false
	}
	return l.o.maxHold == 0 || time.Now().Before(l.start.Add(l.o.maxHold))
}

// isOutage reports whether extensions may have had no chance before t since all
// nodes hung.
func (l *scheduleLock) isOutage(t time.Time) bool {
	o := l.s.outage
	return o.overlaps(l.start, t) && t.Before(o.to.Add(l.o.nodeTimeout+min(l.ttl/20, time.Second)+l.s.settle()))
}

// checkMoves checks (3): while a quorum of nodes is well, Until keeps moving.
func (l *scheduleLock) checkMoves(until, now time.Time) {
	if !l.isSecure() || !l.wasKept() || l.isOutage(now) || !now.Before(l.lapse(until)) {
		return // Also after a jump that has not been noticed yet.
	}
	l.s.mu.Lock()
	closed := !l.c.closing.IsZero() && l.c.closing.Before(now)
	l.s.mu.Unlock()
	l.mu.Lock()
	released := !l.unlocking.IsZero() && l.unlocking.Before(now)
	l.mu.Unlock()
	if left := until.Sub(now); !closed && !released && left < l.expected {
		l.s.failf("(3) %s has only %v of its validity left: an extension is overdue by %v", l.name, left, l.expected-left)
	}
}

// check looks at a lock in use.
func (l *scheduleLock) check() {
	s := l.s
	now, until := time.Now(), l.Until()
	err := l.Err()
	l.mu.Lock()
	unlocking := l.unlocking
	l.mu.Unlock()
	switch lapse := l.lapse(until); {
	case err == nil && !now.Before(lapse):
		s.failf("(1) %s is held after %v", l.name, s.offset(lapse))
	case err == nil && !unlocking.IsZero():
		s.failf("%s is held after its release", l.name)
	case same(err, ErrExpired) && now.Before(lapse):
		s.failf("(2) %s has expired before %v", l.name, s.offset(lapse))
	}
	if h := l.firstHold(); h != nil && h.ctx.Err() == nil {
		l.checkMoves(until, now)
	}
	l.checkLapsed(err)
	if !s.loss && err == nil {
		l.checkStored(until)
	}
}

// checkStored checks (1): a quorum of nodes store the lock until Until.
func (l *scheduleLock) checkStored(until time.Time) {
	s := l.s
	now, have := time.Now(), 0
	for _, n := range s.nodes {
		stored := n.lockKeys()
		if !slices.ContainsFunc(l.resources, func(res string) bool {
			key := stored[res]
			return key.Value != l.token || now.Add(key.TTL).Before(until)
		}) {
			have++
		}
	}
	if have < s.need && l.Err() == nil {
		s.failf("(1) %s, held until %v, has only %d of %d nodes until then", l.name, s.offset(until), have, len(s.nodes))
	}
}

// checkLapsed checks (5): once it has ended, and no quorum of nodes has it, none
// ever has again.
func (l *scheduleLock) checkLapsed(err error) {
	if err == nil {
		return
	}
	have := l.s.holders(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case have < l.s.need && l.lapsed.IsZero():
		l.lapsed = time.Now()
	case have >= l.s.need && !l.lapsed.IsZero():
		l.s.failf("(5) %s has %d nodes again, which it did not have at %v", l.name, have, l.s.offset(l.lapsed))
	}
}

// checkRepair checks (5): a node gets the keys back only if a quorum had them in
// the extension that has found them missing.
func (n *scheduleNode) checkRepair(l *scheduleLock) {
	n.mu.Lock()
	stalling := n.stalling
	n.mu.Unlock()
	l.mu.Lock()
	ago := time.Since(l.hadQuorum)
	l.mu.Unlock()
	if n.s.loss && n.s.outage.to.IsZero() && !stalling && ago > l.o.nodeTimeout+n.s.settle() {
		n.s.failf("(5) %s repairs %s, which had no quorum for %v", n.Name(), l.name, ago)
	}
}

// checkRefused checks why there was no lock.
func (a *scheduleActor) checkRefused(err error) {
	closed := a.c.isClosed()
	switch {
	case errors.Is(err, ErrTaken), errors.Is(err, ErrNoQuorum):
	case errors.Is(err, ErrClosed) && closed:
	case errors.Is(err, ErrMaxHold): // The lock took so long that it was over at once.
	default:
		a.s.failf("%s could not lock: %v", a.name, err)
	}
}

// checkDo checks what Do returned.
func (l *scheduleLock) checkDo(err, failure error) {
	s := l.s
	cause := context.Cause(l.firstHold().ctx)
	now := time.Now()
	switch {
	case failure != nil && !errors.Is(err, failure):
		s.failf("Do of %s does not return its function's error: %v", l.name, err)
	case errors.Is(cause, ErrLost) && !errors.Is(err, cause):
		s.failf("Do of %s ended with %v, but returned %v", l.name, cause, err)
	case errors.Is(err, ErrExpired) && now.Before(l.lapse(l.Until())):
		s.failf("(2) Do of %s: expired before %v", l.name, s.offset(l.lapse(l.Until())))
	case errors.Is(err, ErrLost) && !errors.Is(err, ErrExpired) && l.hurt() <= len(s.nodes)-s.need && !l.wasReleasedBefore():
		s.failf("(2) Do of %s: %v, but only %d nodes can have lost it", l.name, err, l.hurt())
	case errors.Is(err, ErrMaxHold) && !same(cause, ErrMaxHold), errors.Is(err, ErrClosed) && !same(cause, ErrClosed):
		s.failf("Do of %s: %v, but its context ended with %v", l.name, err, cause)
	}
}

// wasReleasedBefore reports whether the lock's keys are gone because a release
// has succeeded.
func (l *scheduleLock) wasReleasedBefore() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.unlocking.IsZero() // All of its keys may be gone by now.
}

// checkUnlock checks the result of a release.
func (l *scheduleLock) checkUnlock(err error, start time.Time, secure, late bool) {
	s := l.s
	closed := l.c.isClosed()
	if took := time.Since(start); took > l.o.nodeTimeout {
		s.failf("Unlock of %s took %v", l.name, took)
	}
	switch {
	case err != nil && secure && !late && !closed && !s.outage.overlaps(l.start, time.Now()):
		s.failf("Unlock of %s, which a quorum of nodes has: %v", l.name, err)
	case errors.Is(err, ErrExpired) && !late:
		s.failf("(2) Unlock of %s before %v: %v", l.name, s.offset(l.lapse(l.Until())), err)
	case err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrNoQuorum):
		s.failf("Unlock of %s: %v", l.name, err)
	}
}

// checkReleased checks (4) on the nodes that are well.
func (l *scheduleLock) checkReleased() {
	s := l.s
	if o := s.outage; o.overlaps(l.start, time.Now().Add(l.o.minHold+s.settle())) {
		return // Some of the releases may be late.
	}
	keep := l.start.Add(l.o.minHold)
	if wait := time.Until(keep); l.o.minHold > 0 && wait > 0 {
		l.checkLeft(keep)
	}
	time.Sleep(s.settle())
	s.mu.Lock()
	cut := l.c.cut
	s.mu.Unlock()
	for _, n := range s.healthy() {
		if !cut && n.hasAny(l) {
			s.failf("(4) %s has keys of %s after its release", n.Name(), l.name)
		}
	}
	l.checkLapsed(l.Err())
}

// checkLeft checks that a release leaves the keys for the min hold, and no longer.
func (l *scheduleLock) checkLeft(keep time.Time) {
	s := l.s
	time.Sleep(s.settle())
	var have []*scheduleNode
	for _, n := range s.healthy() {
		if n.has(l) {
			have = append(have, n)
		}
	}
	if l.isSecure() && len(have) < s.need && time.Now().Before(keep) {
		s.failf("(4) only %d nodes have %s during its min hold, until %v", len(have), l.name, s.offset(keep))
	}
	time.Sleep(time.Until(keep) - 1)
	for _, n := range have {
		if !n.has(l) && time.Now().Before(keep) && !n.hurtSince(l, l.start) {
			s.failf("(4) %s lost keys of %s before its min hold ended at %v", n.Name(), l.name, s.offset(keep))
		}
	}
	time.Sleep(time.Until(keep) + scheduleSlack)
}

// checkClosed checks (6) when Close has returned.
func (c *scheduleClient) checkClosed(start time.Time, limit time.Duration, err error) {
	s := c.s
	now := time.Now()
	if took := now.Sub(start); took > limit {
		s.failf("(6) Close of %s took %v, more than its context", c.name, took)
	}
	if (err != nil) != (now.Sub(start) >= limit) {
		s.failf("(6) Close of %s after %v of %v: %v", c.name, now.Sub(start), limit, err)
	}
	time.Sleep(time.Nanosecond) // What has ended at this instant has noted it then.
	last := start
	for _, l := range s.allLocks() {
		if l.c != c {
			continue
		}
		l.mu.Lock()
		kept, doing, left := len(l.parents) > 0, l.doing, l.left
		l.mu.Unlock()
		lapse, lost := l.lapse(l.Until()), same(l.Err(), ErrLost)
		if err == nil && kept && left.IsZero() && (doing || now.Before(lapse) && !lost) {
			s.failf("(6) Close of %s did not wait for %s, which is held until %v", c.name, l.name, s.offset(lapse))
		}
		switch {
		case doing, kept && left.IsZero() && lost:
			last = now
		case kept && left.IsZero():
			last = latestOf(last, l.latest(l.Until()))
		case kept:
			last = latestOf(last, left)
		}
	}
	if now.After(last.Add(c.timeout)) {
		s.failf("(6) Close of %s took until %v after all had ended", c.name, now.Sub(last))
	}
	if _, err := c.r.TryLock(s.t.Context(), []string{"x"}, time.Second); !errors.Is(err, ErrClosed) {
		s.failf("(6) TryLock after Close of %s: %v", c.name, err)
	}
}

// checkLeftovers checks (4) after all faults have ended.
func (s *schedule) checkLeftovers() {
	for _, n := range s.nodes {
		for key, state := range n.lockKeys() {
			s.mu.Lock()
			l := s.byToken[state.Value]
			cut := slices.ContainsFunc(s.clients, func(c *scheduleClient) bool { return c.cut || !c.closing.IsZero() && n.faulty })
			s.mu.Unlock()
			switch {
			case state.Value == "thief" || cut:
			case l == nil:
				s.failf("(4) %s has %q = %.6s for %v, of an attempt that failed", n.Name(), key, state.Value, state.TTL)
			case l.unlocked.IsZero() && l.c.isClosed():
			case l.o.minHold > 0 && (n.faulty || !s.outage.to.IsZero()): // A release that comes late leaves it as long as it was told.
			case !l.unlockingAt().IsZero() && time.Since(l.start) > l.o.minHold+s.settle():
				s.failf("(4) %s has %q of %s for %v, which was released at %v", n.Name(), key, l.name, state.TTL, s.offset(l.unlockingAt()))
			}
		}
	}
}

func (l *scheduleLock) unlockingAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unlocking
}

// checkOver checks (5) and that every context has ended, long after the lock's end.
func (l *scheduleLock) checkOver() {
	s := l.s
	if err := l.Err(); err == nil {
		s.failf("%s is held after %v", l.name, s.offset(l.Until()))
	}
	l.mu.Lock()
	final, first, stopped, more := l.final, l.first, l.stopped, len(l.extensions)
	l.mu.Unlock()
	if !final.IsZero() && !final.Equal(l.Until()) {
		s.failf("(5) Until of %s moved from %v to %v after its end", l.name, s.offset(final), s.offset(l.Until()))
	}
	if !stopped.IsZero() && more == 0 && l.Until().After(stopped.Add(validity(l.ttl, l.o.driftFactor))) {
		s.failf("(1) %s was extended to %v after its contexts had ended at %v", l.name, s.offset(l.Until()), s.offset(stopped))
	}
	if first != nil && first.ctx.Err() == nil {
		s.failf("(1) a context of %s has not ended", l.name)
	}
}

// checkOverlaps checks (7) for locks that nobody has taken keys from.
func (s *schedule) checkOverlaps() {
	end := func(l *scheduleLock) time.Time {
		end := l.Until()
		if at := l.unlockingAt(); !at.IsZero() && at.Before(end) {
			end = at
		}
		if keep := l.start.Add(l.o.minHold); !l.unlocked.IsZero() && l.isSecure() && keep.After(end) {
			end = keep
		}
		return end
	}
	hurt := func(l *scheduleLock) bool {
		return slices.ContainsFunc(s.nodes, func(n *scheduleNode) bool { return n.hurtSince(l, l.start) })
	}
	for i, a := range s.locks {
		for _, b := range s.locks[:i] {
			if hurt(a) || hurt(b) || !slices.ContainsFunc(a.resources, func(res string) bool { return slices.Contains(b.resources, res) }) {
				continue
			}
			if a.from.Before(end(b)) && b.from.Before(end(a)) {
				s.failf("(7) %s from %v to %v and %s from %v to %v overlap", a.name, s.offset(a.from), s.offset(end(a)),
					b.name, s.offset(b.from), s.offset(end(b)))
			}
		}
	}
}
