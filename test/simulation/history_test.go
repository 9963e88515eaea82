package simulation

import (
	"cmp"
	"slices"
	"time"
)

// heldTo returns until when nobody else may hold the lock: Until, or its end by the wall clock, or its release. The keys
// of a lock with a min hold outlive that, if nobody has taken them.
func (l *simLock) heldTo() time.Time {
	l.mu.Lock()
	released, unlocked, secure := l.released, l.unlocked, l.secure
	l.mu.Unlock()
	end := l.lapse(l.Until())
	if !released.IsZero() && released.Before(end) {
		end = released
	}
	if keep := l.keptTo(l.from); !unlocked.IsZero() && secure && keep.After(end) {
		end = keep
	}
	return end
}

// locksOf returns, for each resource, the locks that were got on it.
func locksOf(locks []*simLock) map[string][]*simLock {
	by := map[string][]*simLock{}
	for _, l := range locks {
		for _, res := range l.Resources() {
			by[res] = append(by[res], l)
		}
	}
	return by
}

// checkOverlaps checks (1): two locks on one resource are never held at the same
// time. A lock is held from its return on.
func (s *sim) checkOverlaps() {
	locks := slices.DeleteFunc(s.allLocks(), func(l *simLock) bool {
		return s.excuse && slices.ContainsFunc(s.nodes, func(n *simNode) bool { return n.hasLost(l) })
	})
	slices.SortStableFunc(locks, func(a, b *simLock) int { return a.from.Compare(b.from) })
	for res, locks := range locksOf(locks) {
		var last *simLock // the one that ends last of those before
		var end time.Time // of that
		for _, l := range locks {
			to := l.heldTo()
			if last != nil && l.from.Before(end) && to.After(l.from) {
				s.failf("(1) %q is locked twice: %s from %v to %v and %s from %v to %v", res,
					last.name, s.offset(last.from), s.offset(end), l.name, s.offset(l.from), s.offset(to))
			}
			if last == nil || to.After(end) {
				last, end = l, to
			}
		}
	}
}

// checkFences checks (2): of two locks on a resource with fences, one that was got
// before the other was asked for has the smaller one, and no two have the same.
func (s *sim) checkFences() {
	s.mu.Lock()
	locks := slices.Clone(s.locks[s.checked:])
	s.mu.Unlock()
	locks = slices.DeleteFunc(locks, func(l *simLock) bool { return l.Fence() == 0 })
	slices.SortStableFunc(locks, func(a, b *simLock) int { return cmp.Compare(a.Fence(), b.Fence()) })
	for res, locks := range locksOf(locks) {
		var last *simLock   // the one with the next smaller fence
		var latest *simLock // the one that was asked for last, of those with smaller fences
		for _, l := range locks {
			switch {
			case last != nil && last.Fence() == l.Fence():
				s.failf("(2) %s and %s on %q have the same fence %d", last.name, l.name, res, l.Fence())
			case latest != nil && l.from.Before(latest.call):
				s.failf("(2) %s on %q was got before %s was asked for, but has the larger fence: %d and %d",
					l.name, res, latest.name, l.Fence(), latest.Fence())
			}
			last = l
			if latest == nil || l.call.After(latest.call) {
				latest = l
			}
		}
	}
}
