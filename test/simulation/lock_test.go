package simulation

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A simLock is a lock that was acquired, with its history. Until is not in it:
// the handle keeps it.
type simLock struct {
	*redlock.Lock
	s     *sim
	c     *simClient
	name  string
	token string // that the keys have
	keys  []string
	ttl   time.Duration
	o     simOptions
	call  time.Time // when it was asked for
	start time.Time // of the attempt that got it
	from  time.Time // when it was returned

	before *simLock // in its turn: whose lock it was; nil: it was got from the nodes

	mu         sync.Mutex              // guards what follows
	shared     bool                    // by goroutines that extend and release it
	extensions map[time.Time]time.Time // starts of those with another ttl, by their Until
	released   time.Time               // when Unlock was first called, zero before
	handedOn   bool                    // another process releases it, without this one's knowledge
	unlocked   bool                    // an Unlock has succeeded
	err        error                   // what Err returned, once that was not nil
	final      time.Time               // Until, when the lock had ended
	secure     bool                    // nothing but its callers and the clock can end it
}

// acquired enters a lock that was got, and checks (2), (3) and (4) at its beginning.
func (c *simClient) acquired(lock *redlock.Lock, name string, call time.Time, ask simAsk) *simLock {
	s, now := c.s, time.Now()
	o := ask.o.over(c.o)
	ttl := o.raised(ask.ttl)
	l := &simLock{
		Lock: lock, s: s, c: c, name: name, ttl: ttl, o: o,
		call: call, start: lock.Until().Add(-testkit.Validity(ttl)), from: now, extensions: map[time.Time]time.Time{},
	}
	for _, res := range lock.Resources() {
		l.keys = append(l.keys, s.prefix+res)
	}
	if l.token = lock.Token(); o.turn > 0 && !ask.try {
		s.mu.Lock()
		l.token = cmp.Or(s.tokens[lock.Holder()], l.token)
		s.mu.Unlock()
	}
	s.tracef("%s has got %s: %q, token %.6s, ttl %v, until %v, fence %d, min hold %v, max hold %v",
		c.name, name, l.keys, l.token, l.ttl, s.offset(l.Until()), l.Fence(), l.o.minHold, l.o.maxHold)
	s.mu.Lock()
	s.locks = append(s.locks, l)
	double := s.byToken[l.token]
	s.byToken[l.token] = l
	spent := slices.ContainsFunc(c.nodes, func(n *simNode) bool {
		a := n.requests.tokens[l.token]
		return a != nil && !a.released.IsZero() && a.released.Before(l.start)
	})
	s.mu.Unlock()
	switch {
	case double != nil && o.turn > 0 && double.o.turn > 0 && double.c == c:
		l.passedOn(double)
		call = l.start
	case double != nil:
		s.failf("%s and %s have the same token", double.name, name)
	case spent:
		s.failf("(5) %s has the token of an attempt that was released before", name)
	}
	if (l.Fence() > 0) != l.o.fencing {
		s.failf("(2) %s has fence %d", name, l.Fence())
	}
	// It counts from the beginning of an attempt within the call.
	if l.start.Before(call) || l.start.After(now) {
		s.failf("(3) %s: Until %v after a call at %v with ttl %v", name, s.offset(l.Until()), s.offset(call), l.ttl)
	}
	if !l.Until().After(now) {
		s.failf("(3) %s was returned when it had ended", name)
	}
	return l
}

func (s *sim) allLocks() []*simLock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.locks)
}

// noteExtension notes that an extension by another ttl begins.
func (l *simLock) noteExtension(ttl time.Duration) {
	start := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extensions[start.Add(testkit.Validity(ttl))] = start
}

// noteRelease notes that the lock is about to be released: it is not held any more.
func (l *simLock) noteRelease() {
	l.s.tracef("%s is about to be released, until %v", l.name, l.s.offset(l.Until()))
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.released.IsZero() {
		return
	}
	l.released = time.Now()
	// An extension may have succeeded at the same instant.
	time.AfterFunc(time.Nanosecond, func() { l.noteEnd(l.Until()) })
}

func (l *simLock) noteEnd(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.final.IsZero() {
		l.final = until
	}
}

func (l *simLock) noteUnlocked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlocked = true
}

func (l *simLock) releasedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.released
}

// validFrom is when the validity begins that ends at until.
func (l *simLock) validFrom(until time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, ok := l.extensions[until]; ok {
		return other
	}
	if l.before != nil {
		return l.before.validFrom(until)
	}
	return until.Add(-testkit.Validity(l.ttl))
}

// jumps returns the jumps of the wall clock since the lock was acquired, or
// extended, for the validity that ends at until.
func (l *simLock) jumps(until time.Time) []simJump {
	s := l.s
	s.mu.Lock()
	jumps := slices.Clone(l.c.jumps)
	s.mu.Unlock()
	if len(jumps) == 0 {
		return nil
	}
	start := l.validFrom(until)
	return slices.DeleteFunc(jumps, func(j simJump) bool { return j.at.Before(start) })
}

// lapse is when a validity that ends at until by the monotonic clock ends by
// either clock, as both have been so far.
func (l *simLock) lapse(until time.Time) time.Time {
	return cutShort(time.Time{}, until, l.jumps(until))
}

// stored is until when nodes store a lock at least whose validity ends at until.
func (l *simLock) stored(until time.Time) time.Time {
	return l.s.passed(l.validFrom(until), until)
}

// same is not errors.Is, which takes ErrExpired for an ErrLost.
func same(a, b error) bool { return a == b } //nolint:errorlint // Says the comment.

// observe checks (4) and returns Err.
func (l *simLock) observe(when string) error {
	s, now := l.s, time.Now()
	l.mu.Lock()
	known, released, handedOn := l.err, l.released, l.handedOn
	l.mu.Unlock()
	before := l.lapse(l.Until())
	err := l.Err()
	until := l.Until()
	after := l.lapse(until)
	switch {
	case err == nil && known != nil:
		s.failf("(4) %s, %s, is held again after %v", l.name, when, known)
	case known != nil && !same(err, known):
		s.failf("(4) Err of %s changed from %v to %v", l.name, known, err)
	case err == nil && !now.Before(before):
		s.failf("(4) %s, %s, is held after %v", l.name, when, s.offset(before))
	case err == nil && !released.IsZero() && now.After(released) && !handedOn:
		s.failf("(4) %s, %s, is held after Unlock at %v", l.name, when, s.offset(released))
	case same(err, redlock.ErrExpired) && now.Before(after):
		s.failf("(4) %s, %s, has expired before %v", l.name, when, s.offset(after))
	case same(err, redlock.ErrLost) && !s.loss && l.releasedAt().IsZero():
		s.failf("(4) %s, %s, is lost though it was not released", l.name, when)
	case err != nil && !same(err, redlock.ErrLost) && !same(err, redlock.ErrExpired):
		s.failf("(4) Err of %s: %v", l.name, err)
	}
	if err != nil && known == nil {
		l.mu.Lock()
		if l.err == nil {
			l.err = err
		}
		l.mu.Unlock()
		l.noteEnd(until)
	}
	return err
}

// check looks at a lock from outside: (4) while it is held, and (3): a quorum of nodes
// store its token for every resource, and go on doing so until Until.
func (l *simLock) check(when string) error {
	s := l.s
	before := l.observe(when)
	if s.loss || before != nil {
		return before
	}
	until := l.stored(l.Until())
	var missing []string
	for _, n := range l.c.nodes {
		if why := n.lacks(l, until); why != "" {
			missing = append(missing, n.Name()+": "+why)
		}
	}
	// Somebody else may have begun to release the lock meanwhile.
	after := l.observe(when)
	if have := len(l.c.nodes) - len(missing); after == nil && have < l.c.need {
		s.failf("(3) %s (token %.6s), %s and held until %v, has only %d of %d nodes: %s",
			l.name, l.token, when, s.offset(until), have, l.c.need, strings.Join(missing, ", "))
	}
	return after
}

// checkOver checks (4) once more, long after: the lock's Until has not moved since its end.
func (l *simLock) checkOver() {
	_ = l.observe("at the end")
	l.mu.Lock()
	final := l.final
	l.mu.Unlock()
	if until := l.Until(); !final.IsZero() && !final.Equal(until) {
		l.s.failf("(4) Until of %s moved from %v to %v after its end", l.name, l.s.offset(final), l.s.offset(until))
	}
}

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
	if keep := l.keptTo(l.from); unlocked && secure && keep.After(end) {
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
	locks := slices.DeleteFunc(s.allLocks(), func(l *simLock) bool { return l.Fence() == 0 })
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
