package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Semaphores: callers in several processes want the permits of one name, by Acquire, TryAcquire and Do,
// while nodes fail, callers give up, holders vanish and clients are closed. A permit is a lock on its slot,
// so everything is checked that is checked of locks, and besides:
//
//   - there are never more than k permits, not even if nodes lose their data, with quarantine; nor if
//     processes differ in k, for the largest
//   - as long as a majority of the nodes is well, nobody waits while a slot is free
//   - nothing is left of what was won for callers that had given up, or for none
type semaphoreSim struct {
	*sim

	k, most    int // permits of most processes, and the largest number
	o          simOptions
	ttl        time.Duration
	hold       time.Duration // at most
	faults     []simFault    // none: the nodes are well
	calm       bool          // there is always a majority that is well
	quarantine bool
	disturbed  bool // subscriptions break
	closing    bool
	until      time.Time

	waits []semaphoreWait // guarded by mu
}

// A semaphoreWait is a call of Acquire, of a process that has at least k permits.
type semaphoreWait struct {
	name     string
	from, to time.Time
}

// A semaphoreProcess is a client with its semaphore.
type semaphoreProcess struct {
	c  *simClient
	k  int
	it *semaphore.Semaphore
}

func runSemaphore(s *sim) {
	ss := &semaphoreSim{sim: s}
	ss.prepare()
	s.tracef("%d nodes, %d permits, at most %d, ttl %v, hold %v, %+v, %d faults, calm %v, quarantine %v, closing %v",
		len(s.nodes), ss.k, ss.most, ss.ttl, ss.hold, ss.o, len(ss.faults), ss.calm, ss.quarantine, ss.closing)
	for i := range 1 + s.rng.IntN(4) {
		ss.begin(i)
	}
	s.moveClocks(time.Until(ss.until), min(ss.ttl, time.Second))
	for _, n := range s.nodes {
		rng, own := s.newRand(), s.newRand()
		if n.faulty {
			s.wg.Go(func() { n.endure(ss.weather(), rng) })
			s.wg.Go(func() { n.forgetAtRandom(own, time.Second, ss.until) })
		}
	}
	s.wg.Wait()
	s.endDelays()
	ss.checkPermits()
	if ss.calm {
		ss.checkWaits()
	}
	if ss.quarantine { // Its clients may not lock for as long as recover does.
		time.Sleep(simRecovery)
		s.checkExpired()
	} else {
		s.recover()
	}
	for _, c := range s.open() {
		if _, left := testkit.WaitersOf(c.r); left > 0 {
			s.failf("(9) %d places in the lines at %s are taken", left, c.name)
		}
	}
}

func (ss *semaphoreSim) prepare() {
	s, rng := ss.sim, ss.rng
	s.cluster(testkit.Pick(rng, 1, 2, 3, 3, 3, 3, 4, 5, 5, 6, 7, 9), testkit.Pick(rng, 0, 0, 200*time.Microsecond, 2*time.Millisecond))
	ss.k = testkit.Pick(rng, 1, 2, 2, 3, 5)
	ss.most = ss.k + testkit.Pick(rng, 0, 0, 0, 1+rng.IntN(3))
	ss.ttl = testkit.Pick(rng, 300*time.Millisecond, time.Second, 30*time.Second)
	ss.hold = testkit.Pick(rng, 5*time.Millisecond, 30*time.Millisecond, 300*time.Millisecond)
	ss.o = simOptions{fencing: rng.IntN(2) == 0, minHold: testkit.Pick(rng, 0, 0, ss.ttl/3)}
	ss.until = s.start.Add(testkit.Between(rng, 100*time.Millisecond, 1500*time.Millisecond))
	ss.disturbed, ss.closing = rng.IntN(3) == 0, rng.IntN(3) == 0
	faulty := 0
	switch rng.IntN(6) {
	case 0:
		ss.calm = true
	case 1, 2:
		ss.calm, ss.faults, faulty = true, simFaults, len(s.nodes)-s.need
	case 3:
		ss.faults, faulty = simFaults, len(s.nodes)
	case 4:
		s.loss, s.excuse = true, true
		ss.faults, faulty = slices.Concat(simFaults, simKeyLosses, simKeyLosses), len(s.nodes)
	default:
		s.loss, s.guarded, ss.quarantine = true, true, true
		ss.faults, faulty = simDataLosses, len(s.nodes)
		ss.ttl, ss.o.minHold, ss.hold = 300*time.Millisecond, 0, 300*time.Millisecond
		ss.until = s.start.Add(6 * time.Second)
	}
	s.makeFaulty(faulty)
	for _, n := range s.nodes {
		if n.faulty && rng.IntN(2) == 0 {
			n.Proxy().LateBytes(0, testkit.Magnitude(rng, 10*time.Millisecond, simMaxLate))
		}
	}
}

func (ss *semaphoreSim) weather() simWeather {
	return simWeather{
		faults: ss.faults, end: ss.until,
		quiet: [2]time.Duration{time.Millisecond, time.Second}, length: [2]time.Duration{time.Millisecond, 2 * time.Second},
	}
}

// begin opens a client and starts its callers.
func (ss *semaphoreSim) begin(i int) {
	s, rng := ss.sim, ss.rng
	var opts []redlock.Option
	if ss.quarantine {
		opts = append(opts, redlock.WithQuarantine(ss.ttl))
	}
	p := &semaphoreProcess{k: testkit.Pick(rng, ss.k, ss.most)}
	if ss.disturbed {
		p.c = s.openTapped(opts...)
		c, own := p.c, s.newRand()
		s.wg.Go(func() { c.disturb(own, ss.until) })
	} else {
		p.c = s.openClient(simOptions{}, opts...)
	}
	var err error
	p.it, err = semaphore.New(p.c.r, "jobs", p.k, ss.ttl, ss.o.options()...)
	s.must(err)
	for j := range 1 + rng.IntN(4) {
		w := &semaphoreCaller{simCaller{s: s, c: p.c, rng: s.newRand(), name: fmt.Sprintf("%s.%d", p.c.name, j+1)}, ss, p}
		s.wg.Go(w.work)
	}
	if rng := s.newRand(); ss.closing && i > 0 {
		s.wg.Go(func() {
			time.Sleep(testkit.Between(rng, 0, time.Until(ss.until)))
			_, _, _ = p.c.close(simUnhurried)
		})
	}
}

// A semaphoreCaller is a goroutine that uses a semaphore.
type semaphoreCaller struct {
	simCaller
	ss *semaphoreSim
	p  *semaphoreProcess
}

func (w *semaphoreCaller) work() {
	ss, rng := w.ss, w.rng
	for time.Now().Before(ss.until) && !w.s.failed() && !w.c.isClosed() {
		time.Sleep(testkit.Pick(rng, 0, 0, testkit.Magnitude(rng, time.Microsecond, 50*time.Millisecond)))
		switch rng.IntN(6) {
		case 0:
			w.tryOnce()
		case 1:
			w.do()
		default:
			w.acquireAndHold()
		}
	}
}

func (w *semaphoreCaller) acquireAndHold() {
	ctx, cancel, end := w.callContext()
	defer cancel()
	start := time.Now()
	permit, err := w.p.it.Acquire(ctx)
	w.ended("Acquire", start, end, err)
	if err == nil {
		w.use(permit)
	}
}

// callContext returns a context that in some cases ends soon, and always a while after the faults.
func (w *semaphoreCaller) callContext() (ctx context.Context, cancel context.CancelFunc, end time.Time) {
	limit := time.Until(w.ss.until) + time.Minute
	if w.rng.IntN(4) == 0 {
		limit = testkit.Magnitude(w.rng, 10*time.Microsecond, 300*time.Millisecond)
	}
	end = time.Now().Add(limit)
	ctx, cancel = context.WithDeadline(w.s.t.Context(), end)
	return ctx, cancel, end
}

// ended checks how a call for a permit has ended.
func (w *semaphoreCaller) ended(what string, start, end time.Time, err error) {
	s, now := w.s, time.Now()
	s.tracef("%s %s: %v", w.name, what, err)
	w.checkEnd(what, start, 0, end, true)
	meant := what == "TryAcquire" && (errors.Is(err, redlock.ErrTaken) || errors.Is(err, redlock.ErrNoQuorum)) ||
		!end.IsZero() && !now.Before(end) && errors.Is(err, context.DeadlineExceeded) || w.c.isClosed() && errors.Is(err, redlock.ErrClosed)
	switch {
	case err == nil:
	case !errors.Is(err, redlock.ErrNotAcquired):
		s.failf("(8) %s of %s: %v", what, w.name, err)
	case !meant:
		s.failf("(7) %s of %s, with time until %v: %v", what, w.name, s.offset(end), err)
	}
	if what == "Acquire" {
		s.mu.Lock()
		w.ss.waits = append(w.ss.waits, semaphoreWait{w.name, start, now})
		s.mu.Unlock()
	}
}

// enter enters a permit that was got. The attempt may have begun before the call, for an earlier caller.
func (w *semaphoreCaller) enter(p *semaphore.Permit) *simLock {
	w.made++
	slot := fmt.Sprintf("jobs#%d", p.Slot)
	if p.Slot < 0 || p.Slot >= w.p.k || !slices.Equal(p.Resources(), []string{slot}) {
		w.s.failf("(1) %s has got slot %d of %d: %v", w.name, p.Slot, w.p.k, p.Resources())
	}
	ask := simAsk{resources: p.Resources(), ttl: w.ss.ttl, o: w.ss.o}
	l := w.c.acquired(p.Lock, fmt.Sprintf("%s#%d", w.name, w.made), p.Until().Add(-testkit.Validity(w.ss.o.over(w.c.o).raised(w.ss.ttl))), ask)
	l.mu.Lock()
	l.secure = !w.s.loss
	l.mu.Unlock()
	_ = l.check("acquired")
	return l
}

// use holds a permit and releases it, in most cases.
func (w *semaphoreCaller) use(p *semaphore.Permit) {
	ctx, rng, l := w.s.t.Context(), w.rng, w.enter(p)
	keep := rng.IntN(3) == 0
	if keep {
		kept := p.KeepAlive(ctx)
		if _, err := w.p.it.Acquire(kept); l.Err() == nil && !errors.Is(err, redlock.ErrAlreadyHeld) && !w.c.isClosed() {
			w.s.failf("(7) %s, which has %s, asks for a second permit: %v", w.name, l.name, err)
		}
	}
	time.Sleep(testkit.Between(rng, 0, w.ss.hold))
	if rng.IntN(30) == 0 && w.ss.ttl < 5*time.Second && !keep {
		w.s.tracef("%s vanishes with %s, until %v", w.name, l.name, w.s.offset(l.Until()))
		return
	}
	_ = w.unlock(ctx, l)
}

func (w *semaphoreCaller) tryOnce() {
	start := time.Now()
	p, err := w.p.it.TryAcquire(w.s.t.Context())
	w.ended("TryAcquire", start, time.Time{}, err)
	if err == nil {
		w.use(p)
	}
}

func (w *semaphoreCaller) do() {
	ctx, cancel, end := w.callContext()
	defer cancel()
	start, l := time.Now(), (*simLock)(nil)
	err := w.p.it.Do(ctx, func(ctx context.Context, p *semaphore.Permit) error {
		l = w.enter(p)
		time.Sleep(testkit.Between(w.rng, 0, w.ss.hold))
		l.noteRelease()
		return nil
	})
	called := l != nil
	if called {
		l.noteUnlocked(err)
	}
	if called == errors.Is(err, redlock.ErrNotAcquired) {
		w.s.failf("(8) Do of %s: called %v, %v", w.name, called, err)
	}
	if !called && !w.c.isClosed() && time.Now().Before(end) {
		w.s.failf("(7) Do of %s from %v has got nothing until %v: %v", w.name, w.s.offset(start), w.s.offset(end), err)
	}
}

// A step is a moment at which the number of permits in use changes.
type semaphoreStep struct {
	at time.Time
	by int
}

// steps are those of the slots below k, in their order, if permits are held until end.
func (ss *semaphoreSim) steps(k int, end func(l *simLock) time.Time) []semaphoreStep {
	var steps []semaphoreStep
	for _, l := range ss.allLocks() {
		slot := -1
		lost := func(n *simNode) bool { return n.hasLost(l) }
		if _, err := fmt.Sscanf(l.Resources()[0], "jobs#%d", &slot); err != nil || slot >= k || ss.excuse && slices.ContainsFunc(ss.nodes, lost) {
			continue
		}
		if to := end(l); to.After(l.from) {
			steps = append(steps, semaphoreStep{l.from, 1}, semaphoreStep{to, -1})
		}
	}
	slices.SortFunc(steps, func(a, b semaphoreStep) int { return cmp.Or(a.at.Compare(b.at), a.by-b.by) })
	return steps
}

// checkPermits checks (1): there are never more than the largest k.
func (ss *semaphoreSim) checkPermits() {
	used := 0
	for _, step := range ss.steps(ss.most, (*simLock).heldTo) {
		if used += step.by; used > ss.most {
			ss.failf("(1) %d of %d permits are in use at %v", used, ss.most, ss.offset(step.at))
		}
	}
}

// checkWaits checks (9): nobody waits for long while one of the slots that all processes know is free.
func (ss *semaphoreSim) checkWaits() {
	longest := waitingSlack + 400*time.Millisecond // A timed retry, and the time to come to that slot.
	used, free := 0, ss.start                      // Since then, one is.
	slots := locksOf(ss.allLocks())
	end := func(l *simLock) time.Time {
		l.mu.Lock()
		confirmed := !l.unlocked.IsZero()
		l.mu.Unlock()
		end := l.start.Add(ss.longest(l.ttl)) // As after Close: its keys stay.
		if confirmed {
			end = laterOf(l.heldTo(), l.from.Add(ss.longest(l.o.minHold)))
		}
		for _, next := range slots[l.Resources()[0]] {
			if next.from.After(l.from) {
				end = earlierOf(end, next.from) // The nodes' clocks were faster.
			}
		}
		return end
	}
	for _, step := range append(ss.steps(ss.k, end), semaphoreStep{ss.until, 0}) {
		before := used
		used += step.by
		if before == ss.k && used < ss.k {
			free = step.at
		}
		if before == ss.k || used < ss.k && step.by != 0 {
			continue
		}
		for _, w := range ss.waits {
			if both := earlierOf(w.to, step.at).Sub(laterOf(w.from, free)); both > longest {
				ss.failf("(9) %s has waited for %v until %v while a slot was free", w.name, both, ss.offset(step.at))
			}
		}
	}
}
