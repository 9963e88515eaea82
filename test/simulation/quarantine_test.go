package simulation

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Quarantine: nodes lose their data all the time, by restarts and by flushes, any number of them at once, while clients
// lock, extend and release. With quarantine no two locks overlap. Clients have different maxTTLs, as while it is raised one
// by one, and none locks for longer than the smallest of them.
type quarantineSim struct {
	*sim

	maxTTL time.Duration // the smallest
	until  time.Time
}

// TestSimQuarantineIsNeeded: without it some locks overlap.
func TestSimQuarantineIsNeeded(t *testing.T) {
	seeOverlaps(t, testkit.Rounds(1, 6), testkit.Rounds(15, 2), func(s *sim) { runQuarantine(s, false) })
}

func runQuarantine(s *sim, guarded bool) {
	rng := s.rng
	s.cluster(testkit.Pick(rng, 1, 2, 3, 3, 3, 4, 5, 6, 7, 9), testkit.Pick(rng, 0, 200*time.Microsecond, 2*time.Millisecond))
	s.loss, s.guarded = true, guarded
	q := &quarantineSim{sim: s, maxTTL: testkit.Magnitude(rng, testkit.Pick(rng, 100*time.Millisecond, 4*time.Second), 30*time.Second)}
	q.until = s.start.Add(12 * q.maxTTL)
	losses := weather(simDataLosses, testkit.Magnitude(rng, q.maxTTL, 20*q.maxTTL), q.maxTTL/4, q.until)
	losses.quiet[0] = q.maxTTL / 10
	o := simOptions{fencing: rng.IntN(2) == 0}
	s.tracef("%d nodes, maxTTL %v, losses %v", len(s.nodes), q.maxTTL, losses.quiet)
	s.makeFaulty(len(s.nodes))
	s.endure(&s.wg, losses)
	for i := range 2 + rng.IntN(2) {
		opts := []redlock.Option{redlock.WithRetryCount(3)}
		if s.guarded {
			opts = append(opts, redlock.WithQuarantine(testkit.Between(rng, q.maxTTL, min(3, time.Duration(2*i+1))*q.maxTTL)))
		}
		c := s.openClient(o, opts...)
		w := &simCaller{s: s, c: c, rng: s.newRand(), name: c.name}
		s.wg.Go(func() { q.work(w) })
	}
	s.moveClocks(time.Until(q.until), q.maxTTL)
	s.wg.Wait()
}

// work locks, extends and releases.
func (q *quarantineSim) work(w *simCaller) {
	ctx, rng := q.t.Context(), w.rng
	for time.Now().Before(q.until) {
		time.Sleep(testkit.Between(rng, 0, q.maxTTL/4))
		life := testkit.Between(rng, q.maxTTL/2, q.maxTTL)
		l, err := w.acquire(ctx, simAsk{resources: []string{"x"}, ttl: life})
		if err != nil {
			continue
		}
		for rng.IntN(3) > 0 {
			time.Sleep(testkit.Magnitude(rng, time.Millisecond, q.maxTTL/2))
			if w.extend(ctx, time.Time{}, l, life) != nil {
				break
			}
		}
		if rng.IntN(2) == 0 {
			time.Sleep(time.Until(l.Until()))
		}
		if l.Err() == nil && rng.IntN(2) == 0 {
			_ = w.unlock(ctx, l)
		}
	}
}

// The set of nodes changes while clients lock, extend, release and abandon: at any time there are clients of two sets,
// one of which has a node more than the other. A step is over when all clients have the newer set, the longest ttl has
// passed, each resource was locked with the newer set once, which fences take, and, with quarantine, the nodes were
// admitted for the new number.
type growSim struct {
	*sim

	ttl   time.Duration
	o     simOptions
	opts  []redlock.Option
	until time.Time // of the faults
}

// growPaths are ways from one set to another, by the indices of nodes.
var growPaths = [][][]int{
	{{0}, {0, 1}, {0, 1, 2}},
	{{0, 1, 2}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}},
	{{0, 1, 2, 3, 4}, {0, 1, 2, 3}, {0, 1, 2}, {0, 1}},
	{{0, 1, 2}, {0, 1, 2, 3}, {1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4}},
	{{0, 1, 2, 3}, {0, 1, 2, 3, 4}, {1, 2, 3, 4}},
}

// TestSimGrowingByTwoAtATime: with clients of a set and of that of two steps later some locks overlap.
func TestSimGrowingByTwoAtATime(t *testing.T) {
	seeOverlaps(t, testkit.Rounds(1, 3), testkit.Rounds(30, 2), func(s *sim) { runGrow(s, 2) })
}

func runGrow(s *sim, stride int) {
	rng := s.rng
	s.cluster(5, testkit.Pick(rng, 0, 200*time.Microsecond, 2*time.Millisecond))
	g := &growSim{sim: s, ttl: testkit.Magnitude(rng, time.Second, 20*time.Second)}
	g.o.fencing = rng.IntN(3) > 0
	path := growPaths[rng.IntN(len(growPaths))]
	g.until = s.start.Add(time.Duration(7*len(path)) * g.ttl)
	if stride == 1 && rng.IntN(3) == 0 {
		g.opts, s.guarded = []redlock.Option{redlock.WithQuarantine(g.ttl)}, true
	}
	s.makeFaulty(rng.IntN(3))
	s.tracef("the sets %v, ttl %v, %+v, quarantine %v, stride %d", path, g.ttl, g.o, s.guarded, stride)
	s.endure(&s.wg, simWeather{
		faults: simFaults, end: g.until,
		quiet: [2]time.Duration{g.ttl / 10, 4 * g.ttl}, length: [2]time.Duration{g.ttl / 100, g.ttl},
	})
	set := func(step int) (nodes []*simNode) {
		for _, i := range path[step] {
			nodes = append(nodes, s.nodes[i])
		}
		return nodes
	}
	before := g.openAll(set(0))
	g.settle(before[0])
	for step := stride; step < len(path); step += stride {
		next := g.openAll(set(step))
		var wg sync.WaitGroup
		end := time.Now().Add(testkit.Between(rng, 3*g.ttl, 6*g.ttl))
		for _, c := range append(before, next...) {
			for i := range 2 {
				w := &simCaller{s: s, c: c, rng: s.newRand(), name: fmt.Sprintf("%s.%d", c.name, i+1)}
				wg.Go(func() { g.work(w, end) })
			}
		}
		wg.Wait()
		for _, c := range before {
			_, _, _ = c.close(simUnhurried)
		}
		time.Sleep(s.longest(g.ttl)) // A key of theirs may have been set late, for a request that was on its way.
		g.settle(next[0])
		before = next
	}
	s.wg.Wait()
	s.endDelays()
}

func (g *growSim) openAll(set []*simNode) []*simClient {
	return []*simClient{g.openOn(set, g.o, g.opts...), g.openOn(set, g.o, g.opts...)}
}

// settle ends a step: what is to be done until no client of another set has any effect.
func (g *growSim) settle(c *simClient) {
	if len(g.opts) > 0 {
		var names []string
		for _, n := range c.nodes {
			names = append(names, n.Name())
		}
		for c.r.Admit(g.t.Context(), names...) != nil {
			time.Sleep(g.ttl / 10)
		}
	}
	w := &simCaller{s: g.sim, c: c, rng: g.newRand(), name: c.name + ".0"}
	for {
		if l, err := w.acquire(g.t.Context(), simAsk{try: true, resources: []string{"x", "y"}, ttl: g.ttl}); err == nil {
			_ = w.unlock(g.t.Context(), l)
			return
		}
		time.Sleep(g.ttl / 10)
	}
}

// work locks, extends, releases and abandons.
func (g *growSim) work(w *simCaller, end time.Time) {
	ctx, rng := g.t.Context(), w.rng
	for time.Now().Before(end) {
		time.Sleep(testkit.Between(rng, 0, g.ttl/4))
		life := testkit.Between(rng, g.ttl/2, g.ttl)
		ask := simAsk{resources: testkit.Pick(rng, []string{"x"}, []string{"x"}, []string{"x", "y"}), ttl: life, try: rng.IntN(2) == 0}
		if !ask.try {
			ask.opts = []redlock.Option{redlock.WithRetryCount(2), redlock.WithRetryDelay(g.ttl / 10)}
		}
		l, err := w.acquire(ctx, ask)
		if err != nil {
			continue
		}
		for rng.IntN(3) == 0 {
			time.Sleep(testkit.Magnitude(rng, time.Millisecond, g.ttl/2))
			if w.extend(ctx, time.Time{}, l, life) != nil {
				break
			}
		}
		time.Sleep(testkit.Between(rng, 0, g.ttl/4))
		if rng.IntN(4) > 0 {
			_ = w.unlock(ctx, l)
		}
	}
}
