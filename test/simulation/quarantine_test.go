package simulation

import (
	"slices"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Quarantine: nodes lose their data all the time, by restarts and by flushes, any number
// of them at once, while clients lock, extend and release. With quarantine no two locks
// overlap. Clients have different maxTTLs, as while it is raised one by one. Either none
// locks for longer than the smallest of them; or those with a larger one do, and ask every
// node for some lock within the smallest, so that it knows of theirs.
type quarantineSim struct {
	*sim

	maxTTL time.Duration // the smallest
	raised bool          // clients with a larger maxTTL lock for as long as that
	until  time.Time
	o      simOptions
	opts   []redlock.Option // others
}

// TestSimQuarantineIsNeeded: without it some locks overlap.
func TestSimQuarantineIsNeeded(t *testing.T) {
	seeOverlaps(t, testkit.Rounds(1, 6), testkit.Rounds(15, 2), func(s *sim) { runQuarantine(s, false) })
}

func runQuarantine(s *sim, guarded bool) {
	rng := s.rng
	s.cluster(testkit.Pick(rng, 1, 2, 3, 3, 3, 4, 5, 6, 7, 9), testkit.Pick(rng, 0, 200*time.Microsecond, 2*time.Millisecond))
	s.loss, s.guarded = true, guarded
	q := &quarantineSim{sim: s, maxTTL: testkit.Magnitude(rng, testkit.Pick(rng, 100*time.Millisecond, 4*time.Second), 30*time.Second), opts: []redlock.Option{redlock.WithRetryCount(3)}}
	q.until = s.start.Add(12 * q.maxTTL)
	losses := simWeather{
		faults: simDataLosses, end: q.until,
		quiet: [2]time.Duration{q.maxTTL / 10, testkit.Magnitude(rng, q.maxTTL, 20*q.maxTTL)}, length: [2]time.Duration{time.Millisecond, q.maxTTL / 4},
	}
	q.o.fencing = rng.IntN(2) == 0
	q.raised = rng.IntN(2) == 0
	s.tracef("%d nodes, maxTTL %v, losses %v, raised %v", len(s.nodes), q.maxTTL, losses.quiet, q.raised)
	for _, n := range s.nodes {
		own := s.newRand()
		s.wg.Go(func() { n.endure(losses, own) })
	}
	for i := range 2 + rng.IntN(2) {
		q.begin(i)
	}
	s.moveClocks(time.Until(q.until), q.maxTTL)
	s.wg.Wait()
}

// begin has one more client work.
func (q *quarantineSim) begin(i int) {
	s, mine, life := q.sim, q.opts, q.maxTTL
	if s.guarded {
		maxTTL := q.maxTTL
		if i > 0 {
			maxTTL = testkit.Between(s.rng, q.maxTTL, 3*q.maxTTL)
		}
		if q.raised {
			life = maxTTL
		}
		mine = append(slices.Clone(mine), redlock.WithQuarantine(maxTTL))
		s.tracef("the next client has maxTTL %v, and locks for %v", maxTTL, life)
	}
	c := s.openClient(q.o, mine...)
	if life > q.maxTTL {
		s.wg.Go(func() { q.beHeard(c) })
	}
	w := &simCaller{s: s, c: c, rng: s.newRand(), name: c.name}
	s.wg.Go(func() { q.work(w, life) })
}

// beHeard has every node know of the client's maxTTL before it votes for smaller ones.
func (q *quarantineSim) beHeard(c *simClient) {
	for time.Now().Before(q.until) {
		time.Sleep(q.maxTTL / 4)
		if l, err := c.r.TryLock(q.t.Context(), []string{c.name}, q.maxTTL/4); err == nil {
			_ = l.Unlock(q.t.Context())
		}
	}
}

// work locks, extends and releases.
func (q *quarantineSim) work(w *simCaller, longest time.Duration) {
	ctx, rng := q.t.Context(), w.rng
	for time.Now().Before(q.until) {
		time.Sleep(testkit.Between(rng, 0, q.maxTTL/4))
		life := testkit.Between(rng, longest/2, longest)
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
