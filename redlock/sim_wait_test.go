package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// Waiting for locks: clients with several goroutines each want the same few
// resources, while subscriptions break, messages are lost, callers give up, attempts are
// cut short at the moment of a wake-up, holders vanish and a minority of nodes fails. Time is fake, so that every wait
// is compared with what the retry delay allows:
//
//	(1) two holders never overlap
//	(2) nobody sleeps past a free lock for longer than one retry delay
//	(3) a wait ends with its context, at that very instant
//	(4) while nothing fails, a release wakes a waiter in a few round trips
//	(5) every wait ends; nothing is left: no key, no place in a line of the process
//
//	SIM_SEEDS=n   runs so many seeds
//	SIM_SEED=k    runs only one, and prints all that happened
func TestSimWaiting(t *testing.T) {
	first, last := simSeeds(t)
	inTrials(t, first, last, 1, func(t *testing.T, seed uint64) { newWaitSim(t, seed).run() })
}

type waitSim struct {
	*trial

	rng     *rand.Rand
	nodes   []*testcluster.Node
	clients []*waitClient
	sets    [][]string
	single  bool          // every set is one resource
	delay   time.Duration // the retry delay
	jitter  time.Duration
	slack   time.Duration // what an attempt may take
	hold    time.Duration // at most
	turns   int           // of each goroutine, at most
	ttl     time.Duration
	faults  bool
	end     time.Time
	wg      sync.WaitGroup

	// Guarded by mu.
	state map[string]*waitResource
}

type waitClient struct {
	r    *Redlock
	taps []*tap
}

// A waitResource is what is known of a resource.
type waitResource struct {
	holder  string
	until   time.Time
	free    time.Time              // since when nobody holds it, if nobody does
	splits  int64                  // how often votes had been split when the last holder got it
	waiters map[*waitCall]struct{} // calls for it that are running
}

type waitCall struct{ since time.Time }

func newWaitSim(t *testing.T, seed uint64) *waitSim {
	t.Helper()
	s := &waitSim{trial: newTrial(t, "SIM_SEED", seed), state: map[string]*waitResource{}}
	rng := s.newRand()
	s.rng = rng
	c := testcluster.RunBubble(t, pick(rng, 1, 2, 3, 3, 3, 4, 5, 5))
	c.SetSeed(seed)
	s.nodes = c.Nodes
	delays := pick(rng, 0, 0, 200*time.Microsecond, 2*time.Millisecond)
	for _, n := range c.Nodes {
		s.must(n.Slow(0, delays))
	}
	s.delay = pick(rng, 20*time.Millisecond, 200*time.Millisecond, time.Second)
	s.jitter = pick(rng, 0, s.delay/2, s.delay)
	s.hold = pick(rng, time.Millisecond, 30*time.Millisecond)
	s.turns = 1 + rng.IntN(15)
	s.ttl = pick(rng, 200*time.Millisecond, time.Second, 5*time.Second)
	s.faults = rng.IntN(2) == 0
	// Two attempts, since one may just have begun, and time for a split vote in each.
	s.slack = 4*DefaultNodeTimeout + 10*time.Millisecond
	s.end = s.start.Add(between(rng, 100*time.Millisecond, 2*time.Second))
	s.single = rng.IntN(3) > 0
	s.sets = [][]string{{"a"}}
	if rng.IntN(2) == 0 {
		s.sets = append(s.sets, []string{"b"})
	}
	if !s.single {
		s.sets = append(s.sets, []string{"a", "b"}, []string{"b", "c"})
	}
	for _, res := range []string{"a", "b", "c"} {
		s.state[res] = &waitResource{waiters: map[*waitCall]struct{}{}, free: s.start}
	}
	for range 1 + rng.IntN(4) {
		nodes, taps := tapped(c)
		r, err := New(nodes, WithRetryDelay(s.delay), WithRetryJitter(s.jitter))
		s.must(err)
		s.clients = append(s.clients, &waitClient{r, taps})
	}
	return s
}

func (s *waitSim) run() {
	s.tracef("%d nodes, %d clients, sets %v, delay %v ± %v, hold %v, ttl %v, faults %v", len(s.nodes), len(s.clients), s.sets, s.delay, s.jitter, s.hold, s.ttl, s.faults)
	for i, c := range s.clients {
		for j := range 1 + s.rng.IntN(4) {
			rng, name := s.newRand(), string(rune('A'+i))+string(rune('1'+j))
			s.wg.Go(func() { s.work(c, name, rng) })
		}
		if s.faults {
			rng := s.newRand()
			s.wg.Go(func() { s.disturb(c, rng) })
		}
	}
	if most := (len(s.nodes) - 1) / 2; s.faults && most > 0 {
		for _, n := range s.nodes[:1+s.rng.IntN(most)] {
			rng := s.newRand()
			s.wg.Go(func() { s.fail(n, rng) })
		}
	}
	s.wg.Wait()
	s.finish()
	s.report()
}

// work is one goroutine of a client.
func (s *waitSim) work(c *waitClient, name string, rng *rand.Rand) {
	for range s.turns {
		if !time.Now().Before(s.end) || s.failed() {
			return
		}
		time.Sleep(pick(rng, 0, 0, magnitude(rng, time.Microsecond, 50*time.Millisecond)))
		set := pick(rng, s.sets...)
		ctx, cancel := context.WithCancel(s.t.Context())
		var limit time.Time
		if rng.IntN(5) == 0 {
			limit = time.Now().Add(magnitude(rng, 10*time.Microsecond, s.delay))
			ctx, cancel = context.WithDeadline(s.t.Context(), limit)
		}
		count := pick(rng, -1, -1, 1000)
		l, err := s.lock(ctx, c, name, set, count)
		cancel()
		if err != nil {
			if now := time.Now(); limit.IsZero() || now.After(limit) || !errors.Is(err, context.DeadlineExceeded) {
				s.failf("(3) %s: %v, at %v, limit %v", name, err, s.offset(now), s.offset(limit))
			}
			continue
		}
		time.Sleep(between(rng, 0, s.hold))
		if rng.IntN(30) == 0 {
			s.tracef("%s vanishes with %v, until %v", name, set, s.offset(l.Until()))
			s.release(l, set, l.claimEnd()) // Its keys are there for the whole ttl.
			continue
		}
		s.release(l, set, time.Time{})
		if rng.IntN(3) == 0 {
			s.interfere(set, name+"'", rng)
		}
		if err := l.Unlock(s.t.Context()); err != nil {
			s.failf("(1) %s: Unlock %v: %v", name, set, err)
		}
		s.tracef("%s has released %v", name, set)
	}
}

// interfere starts an attempt that is cut short about when somebody is told of a release.
func (s *waitSim) interfere(set []string, name string, rng *rand.Rand) {
	c, count := pick(rng, s.clients...), pick(rng, 0, -1)
	delay, length := magnitude(rng, 10*time.Microsecond, 5*time.Millisecond), magnitude(rng, 10*time.Microsecond, 5*time.Millisecond)
	s.wg.Go(func() {
		time.Sleep(delay)
		ctx, cancel := context.WithTimeout(s.t.Context(), length)
		defer cancel()
		l, err := s.lock(ctx, c, name, set, count)
		if err != nil {
			return
		}
		s.release(l, set, time.Time{})
		if err := l.Unlock(s.t.Context()); err != nil {
			s.failf("(1) %s: Unlock %v: %v", name, set, err)
		}
	})
}

// claimEnd is when the keys of a lock that nobody extends have expired.
func (l *Lock) claimEnd() time.Time { return l.start.Add(l.ttl + 2*time.Millisecond) }

func (s *waitSim) lock(ctx context.Context, c *waitClient, name string, set []string, count int) (*Lock, error) {
	call := &waitCall{since: time.Now()}
	s.mu.Lock()
	for _, res := range set {
		s.state[res].waiters[call] = struct{}{}
	}
	s.mu.Unlock()
	l, err := c.r.Lock(ctx, set, s.ttl, WithRetryCount(count))
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, res := range set {
		delete(s.state[res].waiters, call)
	}
	if err != nil {
		s.traceLocked(name + " gives up: " + err.Error())
		return nil, err
	}
	for _, res := range set {
		st := s.state[res]
		if st.holder != "" && now.Before(st.until) {
			s.failures = append(s.failures, "(1) "+name+" and "+st.holder+" hold "+res)
		}
		if waited := now.Sub(later(st.free, call.since)); s.single && waited > s.delay+s.jitter+s.slack {
			s.failures = append(s.failures, "(2) "+name+" has got "+res+" "+waited.String()+" after it was free")
		}
		limit := wakeable
		if s.splits() > st.splits {
			limit += DefaultNodeTimeout // Newcomers have split the votes; that is resolved within it.
		}
		if waited := now.Sub(st.free); s.single && !s.faults && call.since.Before(st.free.Add(-wakeable)) && waited > limit {
			s.failures = append(s.failures, "(4) "+name+" has got "+res+" "+waited.String()+" after its release")
		}
		st.holder, st.until, st.splits = name, l.Until(), s.splits()
	}
	s.traceLocked(name + " has " + set[0] + " by attempt " + string(rune('0'+min(9, l.Attempts()))))
	return l, nil
}

// wakeable is a time in which one that has been refused is in line on the nodes, and
// in which a hand-over ends, even if it has to be passed on.
const wakeable = 40 * time.Millisecond

// splits is how often votes have been split.
func (s *waitSim) splits() (n int64) {
	for _, c := range s.clients {
		n += c.r.counters.splits.Load()
	}
	return n
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// release notes that the lock is not held any more; free is when its keys have
// gone, if that is not now.
func (s *waitSim) release(l *Lock, set []string, free time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, res := range set {
		st := s.state[res]
		if free.IsZero() {
			st.holder, st.free = "", time.Now()
		} else {
			st.until, st.free = l.Until(), free
		}
	}
}

// disturb does to a client's subscriptions what networks do.
func (s *waitSim) disturb(c *waitClient, rng *rand.Rand) {
	for time.Now().Before(s.end) {
		time.Sleep(magnitude(rng, 100*time.Microsecond, 300*time.Millisecond))
		tp := pick(rng, c.taps...)
		all := rng.IntN(3) == 0
		unanswered, length := rng.IntN(2) == 0, magnitude(rng, time.Millisecond, 500*time.Millisecond)
		for _, other := range c.taps {
			switch {
			case other != tp && !all:
			case unanswered:
				other.setMute(true)
			default:
				other.cut()
			}
		}
		if unanswered {
			time.Sleep(length)
			for _, other := range c.taps {
				other.setMute(false)
			}
		}
	}
}

// fail has a node fail in one way after the other, and be well in the end.
func (s *waitSim) fail(n *testcluster.Node, rng *rand.Rand) {
	for time.Now().Before(s.end) {
		time.Sleep(magnitude(rng, time.Millisecond, time.Second))
		length := magnitude(rng, time.Millisecond, 2*time.Second)
		what := rng.IntN(4)
		s.tracef("%s fails in way %d for %v", n.Name(), what, length)
		switch what {
		case 0:
			s.must(n.Hang())
			time.Sleep(length)
			s.must(n.Resume())
		case 1:
			s.must(n.Stop())
			time.Sleep(length)
			s.must(n.Restart(true))
		case 2:
			n.Proxy().Kill()
		case 3:
			s.must(n.FlushScripts())
		}
		s.tracef("%s is well", n.Name())
	}
}

// finish checks what is left when everybody has what he wanted.
func (s *waitSim) finish() {
	synctest.Wait()
	for i, c := range s.clients {
		st := c.r.Stats()
		if st.Waiting != 0 {
			s.failf("(5) %d calls of client %d still wait", st.Waiting, i)
		}
		if _, left := c.r.queue.Len(); left > 0 {
			s.failf("(5) %d places in the lines at client %d are taken", left, i)
		}
	}
	time.Sleep(s.ttl + 12*time.Second) // Of holders that have vanished; and for nodes to come back.
	for _, n := range s.nodes {
		if left := lockKeys(s, n); len(left) > 0 {
			s.failf("(5) %s has %q", n.Name(), left)
		}
	}
	for _, c := range s.clients {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), time.Minute)
		s.must(c.r.Close(ctx))
		cancel()
	}
}

// lockKeys returns the keys of locks that a node has.
func lockKeys(s *waitSim, n *testcluster.Node) (locks []string) {
	all, err := n.Keys()
	s.must(err)
	for k := range all {
		if !isReserved(k) {
			locks = append(locks, k)
		}
	}
	return locks
}
