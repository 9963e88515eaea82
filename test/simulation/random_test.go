package simulation

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Random calls: clients come and go, and lock, extend and release, while nodes fail. After the faults, everything must work
// again, and nothing may be left.
type randomSim struct {
	*sim

	resources []string
	plan      randomPlan
}

// A randomPlan is what a seed decides at the beginning.
type randomPlan struct {
	phases   int
	length   time.Duration // of a phase
	clients  int
	workers  int           // at most, per client
	think    time.Duration // at most, between two operations
	longTTL  bool
	maxFault time.Duration // the longest fault
	maxQuiet time.Duration // the longest time between two faults of a node
	usual    *simFault     // every other fault is this one; nil: none is
	storms   int           // sequences of faults that a faulty node suffers at the same time
	closing  bool          // clients are closed at random moments
	bursts   time.Duration // clients begin together, so often; zero: they do not
	fencing  int           // of 2 locks so many have a fence
	skew     time.Duration // between the clients' clocks, at most; for the fences
	flushing bool          // nodes lose their scripts at random moments
	turn     time.Duration // at most; 0: there are none
}

func runRandom(s *sim) {
	r := &randomSim{sim: s}
	r.prepare()
	s.tracef("%d nodes, prefix %q, resources %q, %+v", len(s.nodes), s.prefix, r.resources, r.plan)
	for range r.plan.phases {
		r.phase()
		s.recover()
		if s.failed() {
			break
		}
	}
	if !s.failed() && s.rng.IntN(4) == 0 {
		s.checkNothingStays()
	}
}

func (r *randomSim) prepare() {
	s, rng := r.sim, r.rng
	n := testkit.Pick(rng, 1, 2, 3, 4, 5, 6, 7, 9)
	if rng.IntN(2) == 0 {
		n = 3 + 2*rng.IntN(2) // What people use.
	}
	s.cluster(n, 0)
	if rng.IntN(3) == 0 {
		s.prefix = "lock:"
	}
	r.resources = []string{"a", "b", "c"}[:1+rng.IntN(3)]
	r.plan = randomPlan{
		phases:   1 + rng.IntN(3),
		length:   testkit.Between(rng, 300*time.Millisecond, 2*time.Second),
		clients:  2 + rng.IntN(3),
		workers:  1 + rng.IntN(3),
		think:    testkit.Pick(rng, 10*time.Millisecond, 50*time.Millisecond, 200*time.Millisecond),
		longTTL:  rng.IntN(3) > 0,
		maxFault: testkit.Pick(rng, 30*time.Millisecond, 200*time.Millisecond, time.Second, 3*time.Second),
		maxQuiet: testkit.Pick(rng, 30*time.Millisecond, 200*time.Millisecond, time.Second),
		storms:   1 + rng.IntN(2),
		closing:  rng.IntN(3) == 0,
		bursts:   testkit.Pick(rng, 0, 0, 20*time.Millisecond, 100*time.Millisecond),
		fencing:  rng.IntN(3),
		skew:     testkit.Pick(rng, 0, 200*time.Millisecond, 5*time.Second, 10*365*24*time.Hour),
		flushing: rng.IntN(3) == 0,
	}
	if rng.IntN(3) == 0 {
		r.plan.usual = &simFaults[rng.IntN(len(simFaults))]
	}
	if rng.IntN(4) == 0 {
		// What is delivered after its connection has been given up is the hardest
		// to get right, and rare by mere chance.
		r.plan.usual = &simCutOff
		r.plan.longTTL = true
	}
	if s.seed%3 == 0 {
		r.plan.turn, r.plan.workers, r.plan.think = testkit.Between(s.newRand(), 5*time.Millisecond, 100*time.Millisecond), 6, 2*time.Millisecond
		r.plan.clients, r.plan.longTTL, r.plan.closing = 2, false, false
	}
	slowest := testkit.Pick(rng, 0, time.Millisecond, time.Millisecond, 2*time.Millisecond, 10*time.Millisecond, 60*time.Millisecond)
	late := rng.IntN(3) > 0
	for _, n := range s.nodes {
		n.delays = [2]time.Duration{testkit.Between(rng, 0, slowest), testkit.Between(rng, 0, slowest)}
		if late {
			n.Proxy().LateBytes(0, testkit.Magnitude(rng, 10*time.Millisecond, simMaxLate))
		}
	}
	// With a faulty majority little succeeds, but that is where attempts fail in all ways and leave things behind.
	s.makeFaulty(testkit.Pick(rng, len(s.nodes)-s.need, rng.IntN(len(s.nodes)+1)))
}

// phase runs the clients and the faults, until all of them have ended.
func (r *randomSim) phase() {
	s, until := r.sim, time.Now().Add(r.plan.length)
	for len(s.open()) < r.plan.clients {
		timeout := testkit.Pick(s.rng, simTimeouts...)
		c := s.openClient(simOptions{timeout: timeout}, redlock.WithConnectTimeout(timeout))
		testkit.WallOffset(c.r).Store(int64(testkit.Between(s.rng, -r.plan.skew, r.plan.skew)))
	}
	s.moveClocks(r.plan.length, r.plan.length)
	var wg sync.WaitGroup
	faults := weather(simFaults, r.plan.maxQuiet, r.plan.maxFault, until)
	faults.usual = r.plan.usual
	for range r.plan.storms {
		s.endure(&wg, faults)
	}
	for _, n := range s.nodes {
		n.usualDelays()
		if rng := s.newRand(); r.plan.flushing {
			wg.Go(func() { n.forgetAtRandom(rng, r.plan.maxQuiet, until) })
		}
		if rng := s.newRand(); r.plan.fencing > 0 {
			wg.Go(func() { r.raiseCounters(n, rng, until) })
		}
	}
	for _, c := range s.open() {
		for i := range 1 + s.rng.IntN(r.plan.workers) {
			w := &randomWorker{simCaller{s: s, c: c, rng: s.newRand(), name: fmt.Sprintf("%s.%d", c.name, i+1)}, r}
			wg.Go(func() { w.run(until) })
		}
		if r.plan.closing && s.rng.IntN(2) == 0 {
			at, limit := testkit.Between(s.rng, 0, r.plan.length), testkit.Pick(s.rng, simUnhurried, testkit.Between(s.rng, 0, 2*c.timeout))
			wg.Go(func() {
				time.Sleep(at)
				c.closeIdle(limit)
			})
		}
	}
	wg.Wait()
	s.endDelays()
}

// raiseCounters does what attempts do that others have overtaken: it has the node's
// counters run ahead of the others'. That is always allowed.
func (r *randomSim) raiseCounters(n *simNode, rng *rand.Rand, until time.Time) {
	for {
		time.Sleep(testkit.Magnitude(rng, 10*time.Millisecond, max(time.Second, r.plan.maxQuiet)))
		if !time.Now().Before(until) {
			return
		}
		key := r.prefix + testkit.Reserved + fences.Mark + testkit.Pick(rng, r.resources...)
		n.send(time.Second, "INCRBY", key, 1+rng.IntN(3))
	}
}

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

// A randomWorker is one goroutine that uses a client.
type randomWorker struct {
	simCaller
	r *randomSim
}

func (w *randomWorker) run(until time.Time) {
	for afterClose := 0; afterClose < 3; {
		time.Sleep(testkit.Between(w.rng, 0, w.r.plan.think))
		if every := w.r.plan.bursts; every > 0 {
			time.Sleep(every - time.Since(w.s.start)%every)
		}
		if !time.Now().Before(until) || w.s.failed() {
			return
		}
		if w.c.isClosed() {
			afterClose++
		}
		if l := w.lock(); l != nil {
			w.hold(l)
		}
		if w.r.plan.closing && w.rng.IntN(20) == 0 {
			// As a process does that ends right after a release or a failure.
			w.c.closeIdle(simUnhurried)
		}
	}
}

func (w *randomWorker) randomTTL() time.Duration {
	if w.r.plan.longTTL && w.rng.IntN(3) > 0 {
		return testkit.Between(w.rng, 20*time.Millisecond, simMaxTTL)
	}
	return testkit.Magnitude(w.rng, 20*time.Millisecond, time.Second)
}

// lock calls Lock or TryLock; nil if it got none.
func (w *randomWorker) lock() *simLock {
	rng, timeout := w.rng, w.c.timeout
	ask := simAsk{try: rng.IntN(2) == 0, ttl: w.randomTTL()}
	for _, i := range rng.Perm(len(w.r.resources))[:1+rng.IntN(len(w.r.resources))] {
		ask.resources = append(ask.resources, w.r.resources[i])
	}
	if w.r.plan.turn > 0 && rng.IntN(20) > 0 {
		w.takesTurns(&ask)
	}
	if rng.IntN(8) == 0 {
		timeout = testkit.Pick(rng, simTimeouts...)
		ask.o.timeout = timeout
	}
	ask.bound += w.c.timeout + 2*timeout // For connections, and once more for a split vote.
	if rng.IntN(2) < w.r.plan.fencing {
		ask.o.fencing = true
		ask.bound += timeout // And for a raise.
	}
	if !ask.try {
		w.retry(&ask)
	}
	ctx, cancel, end := w.context(ask.bound)
	defer cancel()
	ask.end = end
	l, _ := w.acquire(ctx, ask)
	return l
}

// retry makes the call one of Lock, in line or polling.
func (w *randomWorker) retry(ask *simAsk) {
	retries, delay := w.rng.IntN(4), testkit.Magnitude(w.rng, time.Millisecond, 100*time.Millisecond)
	ask.opts = append(ask.opts, redlock.WithRetryCount(retries), redlock.WithRetryDelay(delay))
	ask.bound = time.Duration(retries+1)*ask.bound + 2*time.Duration(retries)*delay
	if w.rng.IntN(2) == 0 && (ask.o.turn == 0 || w.rng.IntN(8) == 0) {
		ask.opts = append(ask.opts, redlock.WithPolling())
		return
	}
	// A release may set off another attempt before each timed one; none of them
	// puts those off by more than the time that it takes. Before the first, it
	// gets in line.
	ask.bound += time.Duration(retries+1)*ask.bound + w.c.timeout
}

// hold uses the lock and ends it in one of several ways.
func (w *randomWorker) hold(l *simLock) {
	rng := w.rng
	if l.o.turn > 0 && rng.IntN(20) > 0 {
		w.hurries(l)
		return
	}
	long := time.Until(l.Until()) > 3*time.Second
	fate := rng.IntN(10)
	if long && rng.IntN(4) > 0 {
		fate = 0 // Or nobody else would get it for the rest of the phase.
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if rng.IntN(4) == 0 {
		w.share(l, fate < 6, &wg)
	}
	for range rng.IntN(4) {
		time.Sleep(testkit.Magnitude(rng, time.Millisecond, 200*time.Millisecond))
		w.use(l)
	}
	if rng.IntN(6) == 0 && !long {
		// At the last moment.
		time.Sleep(time.Until(l.Until()) - testkit.Magnitude(rng, 100*time.Microsecond, 50*time.Millisecond))
		w.use(l)
	}
	switch {
	case fate < 6 || long && fate < 9:
		err := w.release(l)
		for rng.IntN(3) == 0 || errors.Is(err, redlock.ErrNoQuorum) && rng.IntN(4) > 0 {
			time.Sleep(testkit.Magnitude(rng, time.Millisecond, 2*time.Second))
			err = w.release(l)
		}
	case fate < 8 && !long:
		w.expire(l)
		if rng.IntN(2) == 0 {
			_ = w.release(l)
		}
	default:
		w.s.tracef("%s abandons %s", w.name, l.name)
	}
}

// share gives the handle to somebody else, who uses it as well.
func (w *randomWorker) share(l *simLock, releases bool, wg *sync.WaitGroup) {
	other := *w
	other.rng, other.name = rand.New(rand.NewPCG(w.rng.Uint64(), 0)), w.name+"'"
	l.shared = true
	wg.Go(func() {
		for range 1 + other.rng.IntN(3) {
			time.Sleep(testkit.Magnitude(other.rng, time.Millisecond, 200*time.Millisecond))
			other.use(l)
		}
		if other.rng.IntN(3) == 0 && releases {
			_ = other.release(l)
		}
	})
}

// use looks at the lock and may extend it.
func (w *randomWorker) use(l *simLock) {
	_ = l.check("in use")
	if w.rng.IntN(2) == 0 {
		return
	}
	w.extendAtRandom(l)
}

func (w *randomWorker) extendAtRandom(l *simLock) {
	life := w.randomTTL()
	if w.rng.IntN(2) == 0 {
		life = min(life, time.Second)
	}
	ctx, cancel, end := w.context(l.o.timeout * 3 / 2)
	defer cancel()
	_ = w.extend(ctx, end, l, life)
}

func (w *randomWorker) release(l *simLock) error {
	ctx, cancel, _ := w.context(l.o.timeout) // It must have no effect.
	defer cancel()
	return w.unlock(ctx, l)
}

// expire waits for the lock's end, to the nanosecond.
func (w *randomWorker) expire(l *simLock) {
	for {
		until := l.Until()
		time.Sleep(time.Until(until) - 1)
		_ = l.check("just before its end")
		time.Sleep(time.Until(until))
		if l.Until().Equal(until) {
			break
		}
	}
	if err := l.check("at its end"); !errors.Is(err, redlock.ErrLost) {
		w.s.failf("(4) Err of %s at Until: %v", l.name, err)
	}
	w.s.tracef("%s let %s expire", w.name, l.name)
	start := time.Now()
	if err := l.Extend(w.s.t.Context(), time.Second); !errors.Is(err, redlock.ErrLost) || !time.Now().Equal(start) {
		w.s.failf("(4) Extend of %s after Until: %v, took %v", l.name, err, time.Since(start))
	}
}
