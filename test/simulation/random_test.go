package simulation

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing/synctest"
	"time"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Random calls: clients come and go, and lock, extend and release, while nodes fail. After
// the faults, everything must work again, and nothing may be left.

// A randomSim is a run of it.
type randomSim struct {
	*sim

	resources []string
	plan      randomPlan
	repeating bool // requests may run again; guarded by mu
}

// A randomPlan is what a seed decides at the beginning.
type randomPlan struct {
	phases   int
	length   time.Duration // of a phase
	clients  int
	workers  int           // at most, per client
	think    time.Duration // at most, between two operations
	longTTL  bool
	wipe     bool          // nodes lose their data between phases, when no lock can be held
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

func (p randomPlan) String() string {
	if p.usual == nil {
		p.usual = &simFault{}
	}
	type plain randomPlan
	return fmt.Sprintf("%s, %+v", p.usual.name, plain(p))
}

func runRandom(s *sim) {
	r := &randomSim{sim: s}
	r.prepare()
	s.tracef("%d nodes, prefix %q, resources %q, late %v, usually %v", len(s.nodes), s.prefix, r.resources, s.late, r.plan)
	for phase := range r.plan.phases {
		s.tracef("phase %d", phase+1)
		r.phase()
		s.checkFences()
		s.recover()
		if s.failed() {
			break
		}
		if phase+1 < r.plan.phases && r.plan.wipe {
			r.wipe()
		}
	}
	if s.late {
		s.awaitLate(randomLate)
		synctest.Wait()
	}
	if !s.failed() && (s.rng.IntN(4) == 0 || s.late) {
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
		wipe:     rng.IntN(3) == 0,
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
	// In seeds in which a lock may be held that one of the nodes does not have.
	if n >= 3 && rng.IntN(5) < 2 {
		r.beLate()
	}
	if s.seed%3 == 0 && !s.late {
		r.plan.turn, r.plan.workers, r.plan.think = testkit.Between(s.newRand(), 5*time.Millisecond, 100*time.Millisecond), 6, 2*time.Millisecond
		r.plan.clients, r.plan.longTTL, r.plan.closing = 2, false, false
	}
	r.prepareNodes()
}

// prepareNodes decides which nodes will fail. With a faulty majority little
// succeeds, but that is where attempts fail in all ways and leave things behind.
func (r *randomSim) prepareNodes() {
	s, rng := r.sim, r.rng
	slowest := testkit.Pick(rng, 0, time.Millisecond, time.Millisecond, 2*time.Millisecond, 10*time.Millisecond, 60*time.Millisecond)
	late := rng.IntN(3) > 0
	for _, n := range s.nodes {
		n.delays = [2]time.Duration{testkit.Between(rng, 0, slowest), testkit.Between(rng, 0, slowest)}
		switch {
		case s.late:
			n.Proxy().LateBytes(0, randomLate)
		case late:
			n.Proxy().LateBytes(0, testkit.Magnitude(rng, 10*time.Millisecond, simMaxLate))
		}
	}
	minority := len(s.nodes) - s.need
	faulty := testkit.Pick(rng, minority, rng.IntN(len(s.nodes)+1))
	if s.late {
		faulty = minority // The workers disturb each node in its turn.
	}
	s.makeFaulty(faulty)
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
	r.setRepeating(true)
	var wg sync.WaitGroup
	for _, n := range s.nodes {
		n.usualDelays()
		for range r.plan.storms {
			if rng := s.newRand(); n.faulty {
				wg.Go(func() { n.endure(r.weather(until), rng) })
			}
		}
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
			rng := s.newRand()
			wg.Go(func() { r.closeAtRandom(c, rng, until) })
		}
	}
	wg.Wait()
	r.setRepeating(false)
	s.endDelays()
}

func (r *randomSim) weather(until time.Time) simWeather {
	return simWeather{
		faults: simFaults, usual: r.plan.usual, end: until,
		quiet: [2]time.Duration{time.Millisecond, r.plan.maxQuiet}, length: [2]time.Duration{time.Millisecond, r.plan.maxFault},
	}
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

func (r *randomSim) closeAtRandom(c *simClient, rng *rand.Rand, until time.Time) {
	limit := simUnhurried
	if rng.IntN(3) == 0 {
		limit = testkit.Between(rng, 0, 2*c.timeout)
	}
	time.Sleep(testkit.Between(rng, 0, time.Until(until)))
	c.closeIdleWithin(limit)
}

// wipe has nodes lose their data at a moment when nobody can hold a lock, which
// is the only time at which they may.
func (r *randomSim) wipe() {
	s := r.sim
	// The keys may outlive their locks, by the drift and by late extensions.
	time.Sleep(simMaxTTL + time.Second)
	synctest.Wait()
	s.checkExpired()
	s.checked = len(s.locks)
	for _, n := range s.nodes {
		if s.rng.IntN(2) == 0 {
			s.tracef("%s loses its data", n.Name())
			s.must(n.Restart(false))
		}
	}
	synctest.Wait()
	time.Sleep(3 * time.Second)
}
