package simulation

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Expiry: most locks are extended for a time and then left to end, and nearly every successor comes at that moment: it
// aims at it, or waits in line, or polls. A lock that lasts a thousandth too long overlaps the next one, if the clocks
// of a quorum are fast.
type expirySim struct {
	*sim

	ttl   time.Duration
	delay time.Duration // of a request, at most
	until time.Time
	o     simOptions
	sets  [][]string

	last *simLock // the last lock that somebody has got; guarded by mu
}

// TestSimRatesBeyondTheDrift: with clocks that are off by three times the drift factor some locks overlap, in 25 of 60
// seeds.
func TestSimRatesBeyondTheDrift(t *testing.T) {
	seeOverlaps(t, testkit.Rounds(1, 3), testkit.Rounds(60, 2), func(s *sim) {
		s.rateError = 3 * testkit.DefaultDriftFactor
		runExpiry(s)
	})
}

func runExpiry(s *sim) {
	rng := s.rng
	e := &expirySim{sim: s, ttl: testkit.Magnitude(rng, 200*time.Millisecond, time.Minute)}
	e.delay = testkit.Pick(rng, 0, 0, e.ttl/1000, min(e.ttl/100, 10*time.Millisecond))
	s.cluster(testkit.Pick(rng, 1, 2, 3, 3, 3, 3, 4, 5, 5, 5, 7, 9), e.delay)
	answers := testkit.Pick(rng, e.delay, e.delay, min(e.ttl/20, 60*time.Millisecond))
	for _, n := range s.nodes {
		n.delays[1] = answers // What is counted from an answer, or from half the way, is counted from too late.
		n.usualDelays()
	}
	e.until = s.start.Add(6 * e.ttl)
	e.o.fencing = rng.IntN(4) == 0
	e.sets = [][]string{{"a"}}
	if rng.IntN(3) == 0 {
		e.sets = append(e.sets, []string{"a", "b"})
	}
	s.makeFaulty(testkit.Pick(rng, 0, len(s.nodes)-s.need))
	s.slowest = []time.Duration{e.ttl / 100, e.ttl / 10}
	s.tracef("%d nodes, ttl %v, delays %v and %v, %+v, sets %v", len(s.nodes), e.ttl, e.delay, answers, e.o, e.sets)
	var opts []redlock.Option
	if rng.IntN(4) == 0 {
		opts = append(opts, redlock.WithQuarantine(e.ttl))
		s.guarded, e.until = true, e.until.Add(e.ttl+time.Second)
	}
	for i := range 2 + rng.IntN(2) {
		c := s.openClient(e.o, slices.Concat(opts, []redlock.Option{redlock.WithRetryDelay(e.ttl / 10)})...)
		for j := range 1 + rng.IntN(2) {
			w := &simCaller{s: s, c: c, rng: s.newRand(), name: fmt.Sprintf("%s.%d", c.name, j+1)}
			s.wg.Go(func() { e.work(w, i+j) })
		}
	}
	s.moveClocks(6*e.ttl, e.ttl/2)
	for _, n := range s.nodes {
		if own := s.newRand(); n.faulty {
			s.wg.Go(func() {
				n.endure(simWeather{
					faults: simFaults, end: e.until,
					quiet: [2]time.Duration{e.ttl / 10, 4 * e.ttl}, length: [2]time.Duration{e.ttl / 100, e.ttl},
				}, own)
			})
		}
	}
	s.wg.Wait()
	s.endDelays()
}

// work takes the lock when it ends, again and again.
func (e *expirySim) work(w *simCaller, first int) {
	rng := w.rng
	time.Sleep(time.Duration(first) * e.ttl / 20) // Not all at once.
	for time.Now().Before(e.until) {
		if l := e.succeed(w); l != nil {
			e.hold(w, l)
			continue
		}
		time.Sleep(testkit.Between(rng, e.ttl/100, e.ttl/10))
	}
}

// succeed gets the lock when it ends; nil if others were sooner.
func (e *expirySim) succeed(w *simCaller) *simLock {
	rng := w.rng
	life := testkit.Pick(rng, e.ttl, e.ttl, testkit.Between(rng, e.ttl/4, e.ttl))
	ask := simAsk{resources: testkit.Pick(rng, e.sets...), ttl: life}
	e.mu.Lock()
	last := e.last
	e.mu.Unlock()
	if kind := rng.IntN(4); kind == 0 || last == nil {
		ask.end = time.Now().Add(2 * e.ttl)
		ctx, cancel := context.WithDeadline(e.t.Context(), ask.end)
		defer cancel()
		ask.opts = []redlock.Option{redlock.WithRetryCount(-1)}
		if rng.IntN(2) == 0 {
			ask.opts = append(ask.opts, redlock.WithPolling())
		}
		return e.got(w.acquire(ctx, ask))
	}
	// From a bit before its end on: keys end soonest where a clock is fast, and what a lease without drift, or one
	// that is counted from too late, adds to that is of the order of the drift or of a round trip.
	ask.try = true
	tries := 3 + rng.IntN(3)
	width := testkit.Pick(rng, e.ttl/50, e.ttl/200, 4*e.delay+e.ttl/1000)
	for i := range tries {
		for {
			at := last.stored(last.Until()).Add(width*time.Duration(2*i)/time.Duration(tries) - width)
			if !time.Now().Before(at) {
				break
			}
			time.Sleep(time.Until(at)) // It may be extended meanwhile.
		}
		if l := e.got(w.acquire(e.t.Context(), ask)); l != nil {
			return l
		}
	}
	return nil
}

func (e *expirySim) got(l *simLock, err error) *simLock {
	if err != nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = l
	return l
}

// hold uses the lock for a time and leaves it to end, in most cases.
func (e *expirySim) hold(w *simCaller, l *simLock) {
	ctx, rng := e.t.Context(), w.rng
	switch rng.IntN(8) {
	case 0:
		time.Sleep(testkit.Between(rng, 0, e.ttl))
		_ = w.unlock(ctx, l)
		return
	case 1, 2:
		kept, cancel := context.WithTimeout(ctx, testkit.Between(rng, e.ttl/4, 2*e.ttl))
		<-l.KeepAlive(kept).Done()
		cancel()
		_ = l.check("kept")
	case 3, 4, 5:
		for range 1 + rng.IntN(2) {
			time.Sleep(testkit.Between(rng, e.ttl/20, e.ttl/2))
			_ = w.extend(ctx, time.Time{}, l, testkit.Pick(rng, l.ttl, testkit.Between(rng, e.ttl/4, e.ttl)))
		}
	default:
	}
	for l.Err() == nil {
		time.Sleep(max(1, time.Until(l.Until())))
		_ = l.check("at its end")
	}
}
