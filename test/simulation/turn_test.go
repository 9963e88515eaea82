package simulation

import (
	"slices"
	"time"

	"github.com/seed6c881748/redlock/test/testkit"
)

// Turns are a part of the random calls: in every third seed, callers of a client want one resource for a moment each, and
// it is passed on from one to the next. They meet all that happens there, and other calls.

// passedOn enters a lock that was passed on, and checks that it may have been: (1), (2), (3), (4) in its turn.
func (l *simLock) passedOn(before *simLock) {
	s, first := l.s, before
	for first.before != nil {
		first = first.before
	}
	l.before, l.start, l.call = before, first.start, first.call // The nodes were asked for all of them at once.
	s.tracef("%s was passed on to %s", before.name, l.name)
	released, end := before.releasedAt(), first.from.Add(first.o.turn)
	switch {
	case released.IsZero():
		s.failf("(1) %s was passed on to %s, and was not released", before.name, l.name)
	case released.After(end):
		s.failf("(4) %s was passed on to %s at %v, and its turn ended at %v", before.name, l.name, s.offset(released), s.offset(end))
	case !released.Before(before.lapse(before.Until())):
		s.failf("(4) %s was passed on to %s at %v, and had ended at %v", before.name, l.name, s.offset(released), s.offset(before.Until()))
	case !slices.Equal(before.keys, l.keys):
		s.failf("(1) %s was passed on to %s, which wants other resources", before.name, l.name)
	case l.Fence() > 0 && l.Fence() <= before.Fence():
		s.failf("(2) %s with fence %d was passed on to %s with fence %d", before.name, before.Fence(), l.name, l.Fence())
	case l.Until().Sub(released) < testkit.Validity(l.ttl)*9/10:
		s.failf("(3) %s was passed on to %s until %v, which had asked for %v", before.name, l.name, s.offset(l.Until()), l.ttl)
	}
}

// takesTurns makes a call one of those that want the first resource for a moment.
func (w *randomWorker) takesTurns(ask *simAsk) {
	ask.try, ask.resources = false, w.r.resources[:1]
	ask.ttl = testkit.Between(w.rng, time.Second*95/100, time.Second)
	ask.o.turn = min(w.r.plan.turn, testkit.Validity(ask.ttl)/10)
	ask.bound += w.r.plan.turn // It may sleep until the turn is over.
}

// hurries uses a lock for a moment, and sometimes the handle that is over.
func (w *randomWorker) hurries(l *simLock) {
	time.Sleep(testkit.Magnitude(w.rng, 10*time.Microsecond, 5*time.Millisecond))
	_ = l.check("in use")
	_ = w.release(l)
	if w.rng.IntN(4) == 0 {
		w.use(l)
		_ = w.release(l)
	}
}
