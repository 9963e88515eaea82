package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// Schedules of held locks: a few locks are kept by KeepAlive and by Do while nodes
// hang, die, come back, are slow or lose keys, and are ended by Unlock, Close, the
// caller's context, the max hold or a jump of the wall clock. Time is fake, so that
// the end of every hold context is compared to the nanosecond with what must have
// ended it. The numbers in messages are those of the promises:
//
//	(1) a hold context never ends later than the lock's Until
//	(2) it never ends before without the reason that its cause names
//	(3) while a quorum of nodes is well and nobody ends the lock, it goes on
//	(4) no key outlives an answered Unlock, the min hold aside
//	(5) the Until of a lock that has ended never moves, and it is never created again
//	(6) Close returns within its context, and not before what it waits for
//	(7) two locks on one resource never overlap
//
//	SCHEDULES=n   runs the schedules 1 to n
//	SCHEDULE=k    runs only schedule k and prints all that happened
//
// What a schedule does not fix is the same as for the simulation.
func TestSchedulesOfHeldLocks(t *testing.T) {
	first, last := scheduleSeeds(t)
	parts := uint64(runtime.GOMAXPROCS(0))
	for part := range parts {
		t.Run(fmt.Sprintf("part=%d", part), func(t *testing.T) {
			t.Parallel()
			inTrials(t, first+part, last, parts, func(t *testing.T, seed uint64) { newSchedule(t, seed).run() })
		})
	}
}

func scheduleSeeds(t *testing.T) (first, last uint64) {
	t.Helper()
	first, last = 1, uint64(rounds(3000, 40))
	if raceEnabled {
		last = min(last, 500)
	}
	last = envNumber(t, "SCHEDULES", last)
	if seed := envNumber(t, "SCHEDULE", 0); seed > 0 {
		return seed, seed
	}
	return first, last
}

// A schedule is one run of a seed.
type schedule struct {
	*trial

	rng *rand.Rand

	nodes   []*scheduleNode
	need    int
	ttl     time.Duration // the scale of the schedule: ttls are once to twice that
	timeout time.Duration // the shortest node timeout
	delay   time.Duration // at most, in one direction, of a healthy node
	span    time.Duration // for which things happen
	loss    bool          // keys are deleted, stolen, and lost in restarts
	shared  bool          // the locks want the same resources
	outage  scheduleOutage
	clients []*scheduleClient

	wg sync.WaitGroup // all that happens

	// Guarded by mu.
	locks   []*scheduleLock
	byToken map[string]*scheduleLock
}

func newSchedule(t *testing.T, seed uint64) *schedule {
	t.Helper()
	s := &schedule{trial: newTrial(t, "SCHEDULE", seed), byToken: map[string]*scheduleLock{}}
	s.rng = s.newRand()
	rng := s.rng
	n := pick(rng, 3, 3, 3, 5, 5, 1, 2, 4)
	s.need = n/2 + 1
	s.ttl = magnitude(rng, 30*time.Millisecond, 5*time.Second)
	s.timeout = pick(rng, 20*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond)
	hang := rng.IntN(4) == 0
	if hang && rng.IntN(2) == 0 {
		s.ttl = between(rng, 30*time.Millisecond, 3*s.timeout) // So that extensions are on their way when it ends.
	}
	s.delay = pick(rng, 0, min(s.ttl/60, s.timeout/20))
	s.span = between(rng, s.ttl, 4*s.ttl)
	s.loss = rng.IntN(2) == 0
	s.shared = rng.IntN(2) == 0
	c := testcluster.RunBubble(t, n)
	c.SetSeed(seed)
	s.makeNodes(c)
	if hang {
		s.planOutage(rng)
	}
	for i := range pick(rng, 1, 1, 2) {
		s.openClient(c, i)
	}
	return s
}

// A scheduleOutage is a time in which all nodes hang; the zero value is none.
type scheduleOutage struct{ from, to time.Time }

// long reports whether connections may have been given up for it.
func (o scheduleOutage) long() bool { return o.to.Sub(o.from) > node.Silence(0)*9/10 }

// overlaps reports whether a part of it lies between from and to.
func (o scheduleOutage) overlaps(from, to time.Time) bool {
	return !o.from.After(to) && !o.to.Before(from)
}

// settle is the time within which a healthy node has answered everything that
// was sent to it, also if it has forgotten the scripts.
func (s *schedule) settle() time.Duration { return 8*s.delay + time.Millisecond }

func (s *schedule) run() {
	s.tracef("%d nodes, ttl %v, timeout %v, delay %v, span %v, loss %v, shared %v",
		len(s.nodes), s.ttl, s.timeout, s.delay, s.span, s.loss, s.shared)
	for i := range pick(s.rng, 1, 1, 2, 3) {
		a := &scheduleActor{s: s, c: pick(s.rng, s.clients...), rng: s.newRand(), name: fmt.Sprintf("lock%d", i+1)}
		s.wg.Go(a.run)
	}
	for _, c := range s.clients {
		c.happen()
	}
	for _, n := range s.nodes {
		rng := s.newRand()
		s.wg.Go(func() { n.happen(rng) })
	}
	s.wg.Wait()
	s.finish()
	s.report()
}

// planOutage has all nodes hang once. Those that are faulty have no other faults
// then.
func (s *schedule) planOutage(rng *rand.Rand) {
	s.outage.from = s.start.Add(between(rng, s.ttl/2, s.span))
	s.outage.to = s.outage.from.Add(magnitude(rng, time.Millisecond, 2*s.ttl))
	for _, n := range s.nodes {
		n.faulty = false
	}
	s.wg.Go(func() {
		time.Sleep(time.Until(s.outage.from))
		s.tracef("all nodes hang until %v", s.offset(s.outage.to))
		for _, n := range s.nodes {
			s.must(n.Hang())
		}
		time.Sleep(time.Until(s.outage.to))
		s.tracef("all nodes are well again")
		for _, n := range s.nodes {
			s.must(n.Resume())
		}
	})
}

// finish checks what is left when everything has ended.
func (s *schedule) finish() {
	synctest.Wait()
	if slices.ContainsFunc(s.nodes, func(n *scheduleNode) bool { return n.faulty }) || s.outage.long() {
		time.Sleep(node.Silence(s.longestTimeout()) + 2*time.Second + scheduleLate)
	} else {
		time.Sleep(s.settle())
	}
	synctest.Wait()
	s.checkLeftovers()
	for _, l := range s.locks {
		time.Sleep(time.Until(l.Until())) // Contexts whose caller never ended them.
		time.Sleep(time.Until(l.start.Add(l.o.minHold)))
	}
	synctest.Wait()
	for _, l := range s.locks {
		l.checkOver()
	}
	s.checkOverlaps()
	for _, c := range s.clients {
		c.close(time.Minute)
		_ = c.r.Close(s.t.Context()) // Waits for the one that is running, if there is one.
	}
	for _, l := range s.locks {
		l.endParents()
	}
}

func (s *schedule) longestTimeout() time.Duration {
	longest := time.Duration(0)
	for _, c := range s.clients {
		longest = max(longest, c.timeout)
	}
	return longest
}

// A scheduleClient is one Redlock.
type scheduleClient struct {
	s       *schedule
	r       *Redlock
	name    string
	timeout time.Duration

	// Guarded by s.mu.
	closing time.Time // when Close was called, zero before
	cut     bool      // its context is so short that releases may be cut off
	jumps   []scheduleJump
}

// A scheduleJump is a jump of the wall clock.
type scheduleJump struct {
	at time.Time
	by time.Duration
}

func (s *schedule) openClient(cluster *testcluster.Cluster, i int) {
	c := &scheduleClient{s: s, name: fmt.Sprintf("c%d", i+1), timeout: pick(s.rng, s.timeout, s.timeout, 2*s.timeout)}
	opts := []Option{WithNodeTimeout(c.timeout)}
	if s.verbose {
		opts = append(opts, WithHook(func(_ context.Context, e Event) {
			s.tracef("  %s: %s %s, %v, votes %v, until %v", c.name, e.Kind, e.Op, e.Err, e.Votes, s.offset(e.Until))
		}))
	}
	r, err := New(nodesOf(cluster), opts...)
	require.NoError(s.t, err)
	c.r = r
	s.clients = append(s.clients, c)
}

// happen has things happen to the client at random moments.
func (c *scheduleClient) happen() {
	s, rng := c.s, c.s.newRand()
	if rng.IntN(4) == 0 {
		at, limit := between(rng, 0, s.span), pick(rng, magnitude(rng, time.Millisecond, s.span), time.Minute)
		s.wg.Go(func() {
			time.Sleep(at)
			c.close(limit)
		})
	}
	if rng.IntN(4) == 0 {
		for range 1 + rng.IntN(2) {
			at, by := between(rng, 0, s.span), magnitude(rng, 2*time.Millisecond, 2*s.ttl)
			s.wg.Go(func() {
				time.Sleep(at)
				s.mu.Lock()
				c.jumps = append(c.jumps, scheduleJump{time.Now(), by})
				c.r.wallOffset.Add(int64(by))
				s.mu.Unlock()
				s.tracef("the wall clock of %s jumps by %v", c.name, by)
			})
		}
	}
}

func (c *scheduleClient) isClosed() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return !c.closing.IsZero()
}

func (c *scheduleClient) close(limit time.Duration) {
	s := c.s
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), limit)
	defer cancel()
	start := time.Now()
	s.mu.Lock()
	if !c.closing.IsZero() {
		s.mu.Unlock()
		return
	}
	c.closing, c.cut = start, limit < time.Minute
	s.mu.Unlock()
	s.tracef("%s closes, within %v", c.name, limit)
	err := c.r.Close(ctx)
	s.tracef("%s closed: %v", c.name, err)
	c.checkClosed(start, limit, err)
}
