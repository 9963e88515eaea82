package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// The simulation has clients lock, extend and release at random over nodes that
// fail at random, and checks after every step what the library promises. Time is
// fake, so that the checks of times are exact and a minute costs nothing.
//
//	SIM_SEEDS=n     runs the seeds 1 to n
//	SIM_FIRST=k     begins at seed k instead of 1
//	SIM_SEED=k      runs only seed k and prints all that happened
//
// A seed fixes the schedule: the cluster, the clients, what they do and when,
// every fault and every delay. It does not fix what the Go scheduler does with
// goroutines that are runnable at the same instant, nor the library's own random
// numbers (tokens, retry delays). A failure may need its seed several times to
// show again: SIM_SEED=k with -count.

const (
	// simRecovery is the time after the last fault within which everything that
	// was left behind must be gone: the longest silence after which a connection
	// counts as broken, the backoff, and the longest delay of late bytes.
	simRecovery = 8 * time.Second

	// simMaxLate is the longest delay of late bytes.
	simMaxLate = 3 * time.Second

	// simCalm is for how long a node must have had no fault, so that a client
	// that is closed then has no excuse to leave anything on it.
	simCalm = 5 * time.Second

	simMaxTTL = time.Minute
)

// simTimeouts are the node timeouts of the clients and calls.
var simTimeouts = []time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond}

func TestSimRandomSchedules(t *testing.T) {
	first, last := simSeeds(t)
	inTrials(t, first, last, 1, func(t *testing.T, seed uint64) { newSim(t, seed).run() })
}

func simSeeds(t *testing.T) (first, last uint64) {
	t.Helper()
	if seed := envNumber(t, "SIM_SEED", 0); seed > 0 {
		return seed, seed
	}
	count := uint64(rounds(150, 3))
	if raceEnabled {
		count = min(count, 30)
	}
	first = envNumber(t, "SIM_FIRST", 1)
	return first, first + envNumber(t, "SIM_SEEDS", count) - 1
}

// A sim is one run of a seed.
type sim struct {
	*trial

	rng       *rand.Rand // for the main goroutine
	c         *testcluster.Cluster
	nodes     []*simNode
	need      int
	prefix    string
	resources []string
	plan      simPlan
	clients   []*simClient // that are open
	closed    []*simClient

	// Guarded by mu.
	locks    []*simLock
	checked  int // of the locks, for fences that must not be compared with later ones
	byToken  map[string]*simLock
	owners   map[string]*simClient // by token, learnt from the requests that reach nodes
	sessions map[string]*simClient // by tombstone

	repeating bool // requests may run again
	dups      sync.WaitGroup
}

// A simPlan is what a seed decides at the beginning.
type simPlan struct {
	phases   int
	length   time.Duration // of a phase
	clients  int
	workers  int           // at most, per client
	think    time.Duration // at most, between two operations
	longTTL  bool
	wipe     bool          // nodes lose their data between phases, when no lock can be held
	maxFault time.Duration // the longest fault
	maxQuiet time.Duration // the longest time between two faults of a node
	usual    int           // every other fault is this one of simFaults; -1: none is
	storms   int           // sequences of faults that a faulty node suffers at the same time
	closing  bool          // clients are closed at random moments
	bursts   time.Duration // clients begin together, so often; zero: they do not
	fencing  int           // of 2 locks so many have a fence
	skew     time.Duration // between the clients' clocks, at most; for the fences
	late     bool          // requests run twice, and long after their connections; see beLate
}

func newSim(t *testing.T, seed uint64) *sim {
	t.Helper()
	s := &sim{
		trial:   newTrial(t, "SIM_SEED", seed),
		byToken: map[string]*simLock{}, owners: map[string]*simClient{}, sessions: map[string]*simClient{},
	}
	s.rng = s.newRand()
	rng := s.rng
	n := 1 + rng.IntN(5)
	if rng.IntN(2) == 0 {
		n = 3 + 2*rng.IntN(2) // What people use.
	}
	s.need = n/2 + 1
	s.c = testcluster.RunBubble(t, n)
	s.c.SetSeed(seed)
	if rng.IntN(3) == 0 {
		s.prefix = "lock:"
	}
	s.resources = []string{"a", "b", "c"}[:1+rng.IntN(3)]
	s.plan = simPlan{
		phases:   1 + rng.IntN(3),
		length:   between(rng, 300*time.Millisecond, 2*time.Second),
		clients:  2 + rng.IntN(3),
		workers:  1 + rng.IntN(3),
		think:    pick(rng, 10*time.Millisecond, 50*time.Millisecond, 200*time.Millisecond),
		longTTL:  rng.IntN(3) > 0,
		wipe:     rng.IntN(3) == 0,
		maxFault: pick(rng, 30*time.Millisecond, 200*time.Millisecond, time.Second, 3*time.Second),
		maxQuiet: pick(rng, 30*time.Millisecond, 200*time.Millisecond, time.Second),
		usual:    max(-1, rng.IntN(3*len(simFaults))-2*len(simFaults)),
		storms:   1 + rng.IntN(2),
		closing:  rng.IntN(3) == 0,
		bursts:   pick(rng, 0, 0, 20*time.Millisecond, 100*time.Millisecond),
	}
	if rng.IntN(4) == 0 {
		// What is delivered after its connection has been given up is the hardest
		// to get right, and rare by mere chance.
		s.plan.usual = slices.IndexFunc(simFaults, func(f simFault) bool { return f.name == "cut off" })
		s.plan.longTTL = true
	}
	// Drawn last, so that older seeds remain what they were.
	s.plan.fencing = rng.IntN(3)
	s.plan.skew = pick(rng, 0, 200*time.Millisecond, 5*time.Second, 10*365*24*time.Hour)
	s.plan.beLate(seed, n)
	s.makeNodes()
	return s
}

func (s *sim) run() {
	s.tracef("%d nodes, prefix %q, resources %q, %+v", len(s.nodes), s.prefix, s.resources, s.plan)
	for phase := range s.plan.phases {
		s.tracef("phase %d", phase+1)
		s.phase()
		s.checkFences()
		s.recover()
		if s.failed() {
			break
		}
		if phase+1 < s.plan.phases && s.plan.wipe {
			s.wipe()
		}
	}
	s.checkOverlaps()
	s.checkHandles()
	s.tracef("%d raises", s.raises())
	s.awaitLate()
	if !s.failed() && (s.rng.IntN(4) == 0 || s.plan.late) {
		s.checkNothingStays()
	}
	for _, c := range s.clients {
		c.close(s.t.Context(), false)
	}
	s.removeClosed()
	synctest.Wait()
	s.checkConnections()
	s.report()
}

// phase runs the clients and the faults, until all of them have ended.
func (s *sim) phase() {
	for len(s.clients) < s.plan.clients {
		s.openClient()
	}
	for _, n := range s.nodes {
		n.normalDelays()
	}
	s.repeat(true)
	until := time.Now().Add(s.plan.length)
	var wg sync.WaitGroup
	for _, n := range s.nodes {
		for range s.plan.storms {
			faults := s.newRand()
			wg.Go(func() { n.injectFaults(faults, until) })
		}
		flushes := s.newRand()
		wg.Go(func() { n.flushScripts(flushes, until) })
		if s.plan.fencing > 0 {
			bumps := s.newRand()
			wg.Go(func() { n.raiseCounters(bumps, until) })
		}
	}
	for _, c := range s.clients {
		for w := range 1 + s.rng.IntN(s.plan.workers) {
			worker := &simWorker{s: s, c: c, rng: s.newRand(), name: fmt.Sprintf("c%d.%d", c.id, w+1)}
			wg.Go(func() { worker.run(until) })
		}
		if s.plan.closing && s.rng.IntN(2) == 0 {
			rng := s.newRand()
			wg.Go(func() { c.closeAtRandom(rng, until) })
		}
	}
	wg.Wait()
	s.repeat(false)
	for _, n := range s.nodes {
		n.calm()
	}
	s.removeClosed()
}

func (s *sim) removeClosed() {
	s.clients = slices.DeleteFunc(s.clients, func(c *simClient) bool {
		if c.isClosed() {
			s.closed = append(s.closed, c)
		}
		return c.isClosed()
	})
}

// recover checks that everything works again and nothing is left.
func (s *sim) recover() {
	s.tracef("all faults have ended")
	ended := time.Now()
	// Within 3 s with the usual timeouts: what takes longest is to notice that a
	// connection is dead, then the longest backoff.
	slowest := 100 * time.Millisecond
	for _, c := range s.clients {
		slowest = max(slowest, c.timeout)
	}
	time.Sleep(node.Silence(slowest) + 2*time.Second)
	for _, c := range s.clients {
		s.checkAlive(c)
	}
	time.Sleep(time.Until(ended.Add(simRecovery)))
	synctest.Wait()
	s.checkLeftovers()
	for _, c := range s.clients {
		s.checkStats(c)
	}
}

// wipe has nodes lose their data at a moment when nobody can hold a lock, which
// is the only time at which they may.
func (s *sim) wipe() {
	s.sleepUntilNoLockIsHeld()
	for _, n := range s.nodes {
		if s.rng.IntN(2) == 0 {
			s.tracef("%s loses its data", n.Name())
			s.must(n.Restart(false))
		}
	}
	synctest.Wait()
	time.Sleep(3 * time.Second)
}

func (s *sim) sleepUntilNoLockIsHeld() {
	// The keys may outlive their locks, by the drift and by late extensions.
	time.Sleep(simMaxTTL + time.Second)
	synctest.Wait()
	for _, n := range s.nodes {
		if left := n.lockKeys(); len(left) > 0 {
			s.failf("(5) keys on %s that should have expired: %v", n.Name(), left)
		}
	}
}

func (s *sim) openClient() {
	rng := s.newRand()
	c := &simClient{s: s, id: len(s.clients) + len(s.closed) + 1, timeout: pick(rng, simTimeouts...), calm: make([]bool, len(s.nodes))}
	nodes := make([]Node, len(s.nodes))
	for i, n := range s.nodes {
		if (c.id+i)%2 == 0 {
			nodes[i] = Node{Name: n.Name(), Pool: dialerOf(n.Node)}
			continue
		}
		p := n.Pool()
		c.pools = append(c.pools, p)
		nodes[i] = Node{Name: n.Name(), Pool: p}
	}
	r, err := New(nodes, WithNodeTimeout(c.timeout), WithConnectTimeout(c.timeout), WithPrefix(s.prefix), WithHook(func(_ context.Context, e Event) { s.checkEvent(c, e) }))
	require.NoError(s.t, err)
	c.r = r
	r.wallOffset.Store(int64(between(rng, -s.plan.skew, s.plan.skew)))
	s.mu.Lock()
	for _, n := range r.nodes {
		s.sessions[n.Session()] = c
	}
	s.mu.Unlock()
	s.clients = append(s.clients, c)
	s.tracef("client c%d: node timeout %v", c.id, c.timeout)
}

// A simClient is one Redlock.
type simClient struct {
	s       *sim
	id      int
	r       *Redlock
	timeout time.Duration
	pools   []*redis.Pool

	// Guarded by s.mu.
	closing time.Time // when Close was first called, zero before
	rough   bool      // it was closed with a context that ended
	calm    []bool    // by node: it had no fault for long before the end of Close
}

func (c *simClient) isClosed() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return !c.closing.IsZero()
}

func (c *simClient) closeAtRandom(rng *rand.Rand, until time.Time) {
	at, rough, patience := between(rng, 0, time.Until(until)), rng.IntN(3) == 0, between(rng, 0, 2*c.timeout)
	time.Sleep(at)
	ctx := c.s.t.Context()
	if rough {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	c.close(ctx, rough)
}

// close closes the client and checks (7) for that, and (10) for what stays.
func (c *simClient) close(ctx context.Context, rough bool) {
	s := c.s
	start := time.Now()
	s.mu.Lock()
	first := c.closing.IsZero()
	if first {
		c.closing, c.rough = start, rough
	}
	s.mu.Unlock()
	if !first {
		return
	}
	s.tracef("c%d closes", c.id)
	err := c.r.Close(ctx)
	took := time.Since(start)
	s.tracef("c%d closed after %v: %v", c.id, took, err)
	s.mu.Lock()
	for i, n := range s.nodes {
		c.calm[i] = n.calmSince(start.Add(-simCalm))
	}
	s.mu.Unlock()
	// Once for a call of Inspect that is running, once for the releases.
	if took > 2*c.timeout {
		s.failf("(7) Close of c%d took %v, node timeout %v", c.id, took, c.timeout)
	}
	if !rough && err != nil {
		s.failf("Close of c%d: %v", c.id, err)
	}
	if _, err := c.r.TryLock(ctx, s.resources, time.Second); ctx.Err() == nil && !errors.Is(err, ErrClosed) {
		s.failf("TryLock after Close of c%d: %v", c.id, err)
	}
}
