package redlock

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// Nodes lose their data all the time, by restarts and by flushes, any number of them at
// once, while clients lock, extend and release. With quarantine no two locks overlap.
// Clients have different maxTTLs, as while it is raised one by one. Either none locks for
// longer than the smallest of them; or those with a larger one do, and ask every node for
// some lock within the smallest, so that it knows of theirs.
//
//	SIM_SEEDS=n   runs seeds 1 to n; SIM_FIRST=k begins at k
//	SIM_SEED=k    runs only one, and prints all that happened
func TestSimQuarantine(t *testing.T) {
	first, last := simSeeds(t)
	last = first + (last-first)/uint64(rounds(2, 4)) // They are long.
	inTrials(t, first, last, 1, func(t *testing.T, seed uint64) {
		s := newQuarantineSim(t, seed, true)
		s.run()
		s.report()
	})
}

// Without it some do: the simulation would see it.
func TestSimQuarantineIsNeeded(t *testing.T) {
	broken := 0
	first, seeds := rounds(1, 6), rounds(15, 2) // Seeds 6 and 7 are short.
	inTrials(t, uint64(first), uint64(first+seeds-1), 1, func(t *testing.T, seed uint64) {
		s := newQuarantineSim(t, seed, false)
		s.run()
		if s.failed() {
			broken++
		}
	})
	assert.Greater(t, broken, seeds/3)
}

type quarantineSim struct {
	*trial

	rng     *rand.Rand
	c       *testcluster.Cluster
	maxTTL  time.Duration // the smallest
	guarded bool          // with quarantine
	raised  bool          // clients with a larger maxTTL lock for as long as that
	loss    time.Duration // the longest time between two losses of a node
	end     time.Time
	opts    []Option
	wg      sync.WaitGroup

	held []quarantineHold // guarded by mu
}

// A quarantineHold is a time in which a lock was held.
type quarantineHold struct {
	name     string
	from, to time.Time
}

func newQuarantineSim(t *testing.T, seed uint64, quarantine bool) *quarantineSim {
	t.Helper()
	s := &quarantineSim{trial: newTrial(t, "SIM_SEED", seed)}
	s.rng = s.newRand()
	s.c = testcluster.RunBubble(t, pick(s.rng, 1, 2, 3, 3, 3, 4, 5))
	s.c.SetSeed(seed)
	delays := pick(s.rng, 0, 200*time.Microsecond, 2*time.Millisecond)
	for _, n := range s.c.Nodes {
		s.must(n.Slow(0, delays))
	}
	s.maxTTL = magnitude(s.rng, 100*time.Millisecond, 10*time.Second)
	s.loss = magnitude(s.rng, s.maxTTL, 20*s.maxTTL)
	s.end = s.start.Add(12 * s.maxTTL)
	s.opts = []Option{WithRetryCount(3)}
	if s.rng.IntN(2) == 0 {
		s.opts = append(s.opts, WithFencing())
	}
	s.raised, s.guarded = s.rng.IntN(2) == 0, quarantine
	return s
}

func (s *quarantineSim) run() {
	s.tracef("%d nodes, maxTTL %v, loss %v", len(s.c.Nodes), s.maxTTL, s.loss)
	for _, n := range s.c.Nodes {
		rng := s.newRand()
		s.wg.Go(func() { s.lose(n, rng) })
	}
	var clients []*Redlock
	for i := range 2 + s.rng.IntN(2) {
		name, rng, mine, life := string(rune('A'+i)), s.newRand(), s.opts, s.maxTTL
		if s.guarded {
			maxTTL := s.maxTTL
			if i > 0 {
				maxTTL = between(s.rng, s.maxTTL, 3*s.maxTTL)
			}
			if s.raised {
				life = maxTTL
			}
			mine = append(slices.Clone(mine), WithQuarantine(maxTTL))
			s.tracef("%s has maxTTL %v, and locks for %v", name, maxTTL, life)
		}
		r, err := New(nodesOf(s.c), mine...)
		require.NoError(s.t, err)
		clients = append(clients, r)
		if life > s.maxTTL {
			s.wg.Go(func() { s.beHeard(name, r) })
		}
		s.wg.Go(func() { s.work(name, r, life, rng) })
	}
	s.wg.Wait()
	for _, r := range clients {
		s.must(r.Close(s.t.Context()))
	}
	synctest.Wait()
	s.check()
}

// lose has a node lose its data, or restart with it, or without what came last.
func (s *quarantineSim) lose(n *testcluster.Node, rng *rand.Rand) {
	for {
		time.Sleep(magnitude(rng, s.maxTTL/10, s.loss))
		if !time.Now().Before(s.end) {
			return
		}
		switch rng.IntN(3) {
		case 0:
			s.tracef("%s is flushed", n.Name())
			s.must(n.Flush())
		case 1:
			s.tracef("%s restarts without its data", n.Name())
			s.must(n.Restart(false))
		case 2: // An old snapshot: the marker, and none of the locks.
			s.tracef("%s restarts without its locks", n.Name())
			s.must(n.Stop())
			for key := range lockKeysOf(s, n) {
				s.must(n.Del(key))
			}
			s.must(n.Restart(true))
		}
	}
}

func lockKeysOf(s *quarantineSim, n *testcluster.Node) map[string]testcluster.KeyState {
	all, err := n.Keys()
	s.must(err)
	for key := range all {
		if isReserved(key) {
			delete(all, key)
		}
	}
	return all
}

// beHeard has every node know of the client's maxTTL before it votes for smaller ones.
func (s *quarantineSim) beHeard(name string, r *Redlock) {
	for time.Now().Before(s.end) {
		time.Sleep(s.maxTTL / 4)
		if l, err := r.TryLock(s.t.Context(), []string{name}, s.maxTTL/4); err == nil {
			_ = l.Unlock(s.t.Context())
		}
	}
}

func (s *quarantineSim) work(name string, r *Redlock, longest time.Duration, rng *rand.Rand) {
	for time.Now().Before(s.end) {
		time.Sleep(between(rng, 0, s.maxTTL/4))
		life := between(rng, longest/2, longest)
		l, err := r.Lock(s.t.Context(), []string{"x"}, life)
		if err != nil {
			continue
		}
		from := time.Now()
		s.tracef("%s has it until %v", name, s.offset(l.Until()))
		for rng.IntN(3) > 0 {
			time.Sleep(magnitude(rng, time.Millisecond, s.maxTTL/2))
			if l.Extend(s.t.Context(), life) != nil {
				break
			}
			s.tracef("%s extends it until %v", name, s.offset(l.Until()))
		}
		if rng.IntN(2) == 0 {
			time.Sleep(time.Until(l.Until()))
		}
		to := l.Until()
		if l.Err() == nil && rng.IntN(2) == 0 {
			to = time.Now()
			_ = l.Unlock(s.t.Context())
		}
		s.mu.Lock()
		s.held = append(s.held, quarantineHold{name, from, to})
		s.mu.Unlock()
		s.tracef("%s had it from %v to %v", name, s.offset(from), s.offset(to))
	}
}

// check looks for two locks at a time.
func (s *quarantineSim) check() {
	slices.SortFunc(s.held, func(a, b quarantineHold) int { return a.from.Compare(b.from) })
	for i := 1; i < len(s.held); i++ {
		a, b := s.held[i-1], s.held[i]
		if b.from.Before(a.to) && a.name != b.name {
			s.failf("%s holds it from %v to %v, and %s from %v", a.name, s.offset(a.from), s.offset(a.to), b.name, s.offset(b.from))
		}
	}
}
