package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Semaphores: callers in several processes want the permits of one name, by Acquire, TryAcquire and Do, while nodes fail,
// callers give up, holders vanish and clients are closed. A permit is a lock on its slot, so everything is checked that is
// checked of locks: as each has a slot below its process's k, there are never more than the largest k. And nothing is left
// of what was won for callers that had given up, or for none.
type semaphoreSim struct {
	*sim

	o     simOptions
	ttl   time.Duration
	hold  time.Duration // at most
	until time.Time
}

// A semaphoreCaller is a goroutine that uses a semaphore.
type semaphoreCaller struct {
	simCaller
	ss *semaphoreSim
	it *semaphore.Semaphore
	k  int
}

func runSemaphore(s *sim) {
	ss, rng := &semaphoreSim{sim: s}, s.rng
	s.cluster(testkit.Pick(rng, 1, 2, 3, 3, 3, 3, 4, 5, 5, 6, 7, 9), testkit.Pick(rng, 0, 0, 200*time.Microsecond, 2*time.Millisecond))
	ss.ttl = testkit.Pick(rng, 300*time.Millisecond, time.Second, 30*time.Second)
	ss.hold = testkit.Pick(rng, 5*time.Millisecond, 30*time.Millisecond, 300*time.Millisecond)
	ss.o = simOptions{fencing: rng.IntN(2) == 0, minHold: testkit.Pick(rng, 0, 0, ss.ttl/3)}
	ss.until = s.start.Add(testkit.Between(rng, 100*time.Millisecond, 1500*time.Millisecond))
	s.loss = rng.IntN(3) == 0
	s.excuse = s.loss
	faults := simFaults
	if s.loss {
		faults = slices.Concat(simFaults, simKeyLosses, simKeyLosses)
	}
	s.makeFaulty(testkit.Pick(rng, 0, len(s.nodes)-s.need, len(s.nodes)))
	for _, n := range s.nodes {
		if n.faulty && rng.IntN(2) == 0 {
			n.Proxy().LateBytes(0, testkit.Magnitude(rng, 10*time.Millisecond, simMaxLate))
		}
		if own := s.newRand(); n.faulty {
			s.wg.Go(func() { n.forgetAtRandom(own, time.Second, ss.until) })
		}
	}
	k, more := testkit.Pick(rng, 1, 2, 2, 3, 5), testkit.Pick(rng, 0, 0, 0, 1+rng.IntN(3))
	for i := range 1 + rng.IntN(4) {
		ss.begin(testkit.Pick(rng, k, k+more), i > 0 && rng.IntN(5) == 0)
	}
	s.moveClocks(time.Until(ss.until), min(ss.ttl, time.Second))
	s.endure(&s.wg, weather(faults, time.Second, 2*time.Second, ss.until))
	s.wg.Wait()
	s.endDelays()
	s.recover()
	s.checkLines()
}

// begin opens a client, which may be closed, and starts its callers. Its subscriptions may break.
func (ss *semaphoreSim) begin(k int, closes bool) {
	s, rng := ss.sim, ss.rng
	c := s.openClient(simOptions{})
	it, err := semaphore.New(c.r, "jobs", k, ss.ttl, ss.o.options()...)
	s.must(err)
	s.tracef("%s has %d permits, for %v, hold %v, %+v", c.name, k, ss.ttl, ss.hold, ss.o)
	for j := range 1 + rng.IntN(4) {
		w := &semaphoreCaller{simCaller{s: s, c: c, rng: s.newRand(), name: fmt.Sprintf("%s.%d", c.name, j+1)}, ss, it, k}
		s.wg.Go(w.work)
	}
	own := s.newRand()
	if rng.IntN(3) == 0 {
		s.wg.Go(func() { c.disturb(own, ss.until) })
	}
	if closes {
		s.wg.Go(func() {
			time.Sleep(testkit.Between(own, 0, time.Until(ss.until)))
			_, _, _ = c.close(simUnhurried)
		})
	}
}

func (w *semaphoreCaller) work() {
	rng := w.rng
	for time.Now().Before(w.ss.until) && !w.s.failed() && !w.c.isClosed() {
		time.Sleep(testkit.Pick(rng, 0, 0, testkit.Magnitude(rng, time.Microsecond, 50*time.Millisecond)))
		start, end := time.Now(), time.Now().Add(time.Until(w.ss.until)+time.Minute) // Always a while after the faults.
		if rng.IntN(4) == 0 {
			end = start.Add(testkit.Magnitude(rng, 10*time.Microsecond, 300*time.Millisecond))
		}
		ctx, cancel := context.WithDeadline(w.s.t.Context(), end)
		var p *semaphore.Permit
		var err error
		switch rng.IntN(6) {
		case 0:
			p, err = w.it.TryAcquire(ctx)
			w.ended("TryAcquire", start, end, err)
		case 1:
			w.do(ctx, end)
		default:
			p, err = w.it.Acquire(ctx)
			w.ended("Acquire", start, end, err)
		}
		if p != nil {
			w.use(p)
		}
		cancel()
	}
}

// ended checks how a call for a permit has ended.
func (w *semaphoreCaller) ended(what string, start, end time.Time, err error) {
	s, now := w.s, time.Now()
	s.tracef("%s %s: %v", w.name, what, err)
	w.checkEnd(what, start, 0, end, true)
	meant := what == "TryAcquire" && (errors.Is(err, redlock.ErrTaken) || errors.Is(err, redlock.ErrNoQuorum)) ||
		!now.Before(end) && errors.Is(err, context.DeadlineExceeded) || w.c.isClosed() && errors.Is(err, redlock.ErrClosed)
	switch {
	case err == nil:
	case !errors.Is(err, redlock.ErrNotAcquired), !meant:
		s.failf("(7) %s of %s, with time until %v: %v", what, w.name, s.offset(end), err)
	case what == "Acquire" && now.Sub(w.ss.until) > 50*time.Second:
		s.failf("(9) %s of %s has got nothing since %v", what, w.name, s.offset(start))
	}
}

// enter enters a permit that was got. The attempt may have begun before the call, for an earlier caller.
func (w *semaphoreCaller) enter(p *semaphore.Permit) *simLock {
	w.made++
	if p.Slot < 0 || p.Slot >= w.k || !slices.Equal(p.Resources(), []string{fmt.Sprintf("jobs#%d", p.Slot)}) {
		w.s.failf("(1) %s has got slot %d of %d: %v", w.name, p.Slot, w.k, p.Resources())
	}
	start := p.Until().Add(-testkit.Validity(w.ss.o.over(w.c.o).raised(w.ss.ttl)))
	l := w.c.acquired(p.Lock, fmt.Sprintf("%s#%d", w.name, w.made), start, simAsk{ttl: w.ss.ttl, o: w.ss.o})
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
		_ = p.KeepAlive(ctx)
	}
	time.Sleep(testkit.Between(rng, 0, w.ss.hold))
	if rng.IntN(30) == 0 && w.ss.ttl < 5*time.Second && !keep {
		w.s.tracef("%s vanishes with %s, until %v", w.name, l.name, w.s.offset(l.Until()))
		return
	}
	_ = w.unlock(ctx, l)
}

func (w *semaphoreCaller) do(ctx context.Context, end time.Time) {
	start, called := time.Now(), false
	err := w.it.Do(ctx, func(_ context.Context, p *semaphore.Permit) error {
		called = true
		l := w.enter(p)
		time.Sleep(testkit.Between(w.rng, 0, w.ss.hold))
		l.noteRelease()
		return nil
	})
	if !called {
		w.ended("Do", start, end, err)
	}
}
