package simulation

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A sim is one run of a seed. The engine is in these files:
//
//	engine_test.go      random numbers, what is noted and reported, what is left when the faults have ended
//	node_test.go        nodes: what they store and what they lose, their faults
//	requests_test.go    what reaches nodes; requests that come late or again
//	client_test.go      clients, and how they are closed; clocks, and machines that sleep
//	caller_test.go      goroutines that use a client: Lock, Extend, Unlock; what errors say
//	lock_test.go        locks with their history: overlaps and fences
//
// A profile is a function that makes a cluster, opens clients, starts what happens, and
// waits for its end.
type sim struct {
	t       *testing.T
	seed    uint64
	verbose bool
	start   time.Time
	actors  uint64         // how many have got random numbers of their own
	rng     *rand.Rand     // for the main goroutine
	wg      sync.WaitGroup // all that happens besides

	c       *testcluster.Cluster
	nodes   []*simNode
	need    int
	prefix  string
	clients []*simClient // all ever

	// What a profile says of itself.
	loss      bool                              // nodes lose keys while locks are held
	excuse    bool                              // (1) is not promised for locks of which nodes have lost keys
	guarded   bool                              // clients have quarantine
	strangers bool                              // releases are asked for by other processes than the locks
	slowest   []time.Duration                   // how slow a slow node is, at most
	onRequest func(n *simNode, req *simRequest) // is called before the request runs
	again     sync.WaitGroup                    // requests that are to run again
	rateError float64                           // nodes' clocks are fast or slow by so much, at most

	clockRands uint64
	moves      []*time.Timer // of clocks

	mu       sync.Mutex // guards what follows
	sleeps   []simJump  // of all machines
	trace    []string
	failures []string
	locks    []*simLock
	byToken  map[string]*simLock
	owners   map[string]*simClient // by token, learnt from what clients write
	tokens   map[string]string     // by their digests, learnt so
}

func newSim(t *testing.T, seed uint64) *sim {
	t.Helper()
	s := &sim{
		t: t, seed: seed, verbose: os.Getenv("SIM_SEED") != "", start: time.Now(),
		slowest:   []time.Duration{5 * time.Millisecond, 30 * time.Millisecond, 120 * time.Millisecond, 500 * time.Millisecond},
		rateError: testkit.DefaultDriftFactor,
		byToken:   map[string]*simLock{}, owners: map[string]*simClient{}, tokens: map[string]string{},
	}
	s.rng = s.newRand()
	return s
}

// cluster makes the nodes; each direction takes up to delay.
func (s *sim) cluster(n int, delay time.Duration) {
	s.c = testcluster.RunBubble(s.t, n)
	s.c.SetSeed(s.seed)
	s.need = n/2 + 1
	for i, node := range s.c.Nodes {
		n := &simNode{Node: node, s: s, index: i, delays: [2]time.Duration{delay, delay}, quiet: s.start.Add(-time.Hour)}
		n.usualDelays()
		s.must(n.OnCommand(n.observe))
		s.nodes = append(s.nodes, n)
	}
	s.setRates()
}

// end closes the clients that are open, and checks what must hold after every run.
func (s *sim) end() {
	s.checkOverlaps()
	s.checkFences()
	for _, l := range s.allLocks() {
		l.checkOver()
	}
	for _, c := range s.open() {
		c.closeIdle(simUnhurried)
	}
	s.again.Wait()
	synctest.Wait()
	s.checkConnections()
}

// newRand returns a source of random numbers for one actor, so that the order
// in which the actors run does not change what each of them does.
func (s *sim) newRand() *rand.Rand {
	s.actors++
	return rand.New(rand.NewPCG(s.seed, s.actors))
}

// offset shows an instant of the run.
func (s *sim) offset(t time.Time) string {
	if t.IsZero() {
		return "ever"
	}
	return t.Sub(s.start).String()
}

func (s *sim) tracef(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.traceLocked(format, args...)
}

func (s *sim) traceLocked(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%14v  %s", time.Since(s.start), fmt.Sprintf(format, args...)))
}

// failf notes that an invariant does not hold.
func (s *sim) failf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(format, args...)
}

func (s *sim) failLocked(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	s.failures = append(s.failures, line)
	s.traceLocked("FAILED: %s", line)
}

func (s *sim) must(err error) {
	if err != nil {
		s.failf("the test itself failed: %v", err)
	}
}

func (s *sim) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.failures) > 0
}

// report fails the test with what was noted.
func (s *sim) report() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	const shown = 120
	trace := s.trace
	if first := slices.IndexFunc(trace, func(line string) bool { return strings.Contains(line, "FAILED: ") }); first >= 0 && !s.verbose {
		// What led to the failure; a replay shows all.
		trace = trace[max(0, first-shown):min(len(trace), first+10)]
	}
	if len(s.failures) > 0 {
		s.t.Errorf("seed %d (replay: SIM_SEED=%d):\n%s\n\ntrace:\n%s", s.seed, s.seed,
			strings.Join(s.failures[:min(len(s.failures), 10)], "\n"), strings.Join(trace, "\n"))
	} else if s.verbose {
		s.t.Logf("seed %d:\n%s", s.seed, strings.Join(trace, "\n"))
	}
}

const (
	// simRecovery is the time after the last fault within which everything that
	// was left behind must be gone: the longest silence after which a connection
	// counts as broken, the backoff, and the longest delay of late bytes.
	simRecovery = 8 * time.Second

	// simMaxLate is the longest delay of late bytes.
	simMaxLate = 3 * time.Second

	simMaxTTL = time.Minute
)

// recover checks, after the last fault, that everything works again and nothing is left.
// Nodes have no delays then.
func (s *sim) recover() {
	s.tracef("all faults have ended")
	ended := time.Now()
	// What takes longest is to notice that a connection is dead, then the longest backoff.
	time.Sleep(node.Silence(max(100*time.Millisecond, s.longestTimeout())) + 2*time.Second)
	for _, c := range s.open() {
		c.checkAlive()
	}
	time.Sleep(time.Until(ended.Add(simRecovery)))
	synctest.Wait()
	s.checkLeftovers()
	for _, c := range s.open() {
		c.checkStats()
	}
}

// checkAlive checks that a client can lock on all nodes, in no time.
func (c *simClient) checkAlive() {
	s, start := c.s, time.Now()
	res := "fresh-" + c.name
	lock, err := c.r.TryLock(s.t.Context(), []string{res}, time.Minute)
	if err != nil {
		s.failf("(6) %s cannot lock after the faults: %v", c.name, err)
		return
	}
	l := c.acquired(lock, res, start, simAsk{ttl: time.Minute})
	synctest.Wait()
	for _, n := range s.nodes {
		if why := n.lacks(l, l.Until()); why != "" {
			s.failf("(6) %s cannot lock on %s after the faults: %s; %+v", c.name, n.Name(), why, c.r.Stats().Nodes)
		}
	}
	l.noteRelease()
	if err := l.Unlock(s.t.Context()); err != nil {
		s.failf("(6) %s cannot unlock after the faults: %v", c.name, err)
	}
	synctest.Wait()
	for _, n := range s.nodes {
		if n.hasAny(l) {
			s.failf("(5) %s cannot unlock on %s after the faults", c.name, n.Name())
		}
	}
	if took := time.Since(start); took > 0 {
		s.failf("(6) %s needed %v for a lock after the faults", c.name, took)
	}
}

// checkLeftovers checks (5), when no call is running. What may be left is a lock that was not released, what has come late,
// for one ttl, and what a client could not clean up because it was closed while nodes did not answer: Close waits for them
// no longer than the node timeout.
func (s *sim) checkLeftovers() {
	for i, n := range s.nodes {
		for key, state := range n.lockKeys() {
			s.mu.Lock()
			c, l := s.owners[state.Value], s.byToken[state.Value]
			excused := c != nil && !c.closing.IsZero() && (c.rough || !c.calm[i] || l != nil && !l.releasedAt().Before(c.closing))
			s.mu.Unlock()
			if state.Value == simThief || c != nil && state.TTL > 0 && state.TTL <= simMaxTTL &&
				(excused || l != nil && (l.releasedAt().IsZero() || n.mayKeep(l)) || n.mayHave(state.Value)) {
				continue
			}
			of := "a failed attempt"
			if l != nil {
				of = l.name
			}
			s.failf("(5) %s has %q = %.6s of %s for %v", n.Name(), key, state.Value, of, state.TTL)
		}
	}
}

// checkExpired checks (5) at a time when all locks have ended.
func (s *sim) checkExpired() {
	for _, n := range s.nodes {
		if left := n.lockKeys(); len(left) > 0 {
			s.failf("(5) keys on %s that should have expired: %v", n.Name(), left)
		}
	}
}

// checkNothingStays checks that all that is stored expires, the library's own
// keys included, and that idle connections stay up.
func (s *sim) checkNothingStays() {
	time.Sleep(s.longest(2*simMaxTTL + time.Second))
	for _, n := range s.nodes {
		left, err := n.Keys()
		s.must(err)
		for key := range left {
			if strings.Contains(key, testkit.Reserved+fences.Mark) { // It has a life of its own.
				delete(left, key)
			}
		}
		if len(left) > 0 {
			s.failf("(5) %s still has %v", n.Name(), left)
		}
	}
	for _, c := range s.open() {
		c.checkStats()
		c.checkAlive()
	}
}
