package simulation

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/test/testkit"
)

// Clocks: those of the nodes run fast and slow, as much as the drift factor allows, the wall clocks of clients jump,
// and machines sleep. A sleep is that of all machines on which clients run: to them the nodes' clocks leap, and so do
// their own wall clocks, while the monotonic ones stand still. The sleep of a single machine would take a time of its
// own for each client, which a bubble has not.

// A simJump is a jump of a wall clock, forward, or a sleep.
type simJump struct {
	at time.Time
	by time.Duration
}

// clockRand returns random numbers that are apart from those of the schedule: with and without other clocks, a seed
// does the same.
func (s *sim) clockRand() *rand.Rand {
	s.clockRands++
	return rand.New(rand.NewPCG(s.seed, 1<<32+s.clockRands))
}

// setRates has the nodes' clocks run fast and slow: all as fast as they may, all as slow, or each by itself.
func (s *sim) setRates() {
	rng := s.clockRand()
	all := testkit.Pick(rng, 0, 0, 1, -1.0)
	for _, n := range s.nodes {
		off := all
		if off == 0 {
			off = testkit.Pick(rng, 1, -1, 2*rng.Float64()-1)
		}
		n.rate = 1 + off*s.rateError
		s.must(n.SetRate(n.rate))
		s.tracef("the clock of %s runs at %.4f", n.Name(), n.rate)
	}
}

// soonest is the least time in which d may pass by a node's clock, longest the most.
func (s *sim) soonest(d time.Duration) time.Duration {
	return time.Duration(float64(d) / (1 + s.rateError))
}

func (s *sim) longest(d time.Duration) time.Duration {
	return time.Duration(float64(d)/(1-s.rateError)) + 1
}

// moveClocks has wall clocks jump and machines sleep at random moments of the span, by at most so long. Only clients
// that there are take part. settleClocks ends it.
func (s *sim) moveClocks(span, most time.Duration) {
	rng, clients := s.clockRand(), slices.Clone(s.clients)
	for range testkit.Pick(rng, 0, 0, 1, 2, 3) {
		at, by := testkit.Magnitude(rng, time.Millisecond, max(span, 2*time.Millisecond)), testkit.Magnitude(rng, 2*time.Millisecond, max(most, 4*time.Millisecond))
		c, kind := testkit.Pick(rng, clients...), rng.IntN(3)
		s.moves = append(s.moves, time.AfterFunc(at, func() {
			switch kind {
			case 0:
				s.sleep(clients, by)
			case 1:
				c.jumpBack(by)
			default:
				c.jump(by)
			}
		}))
	}
}

// settleClocks has no clock jump any more.
func (s *sim) settleClocks() {
	for _, t := range s.moves {
		t.Stop()
	}
	s.moves = nil
}

// sleep has all machines sleep. No client may see a key expire before its own clock has moved.
func (s *sim) sleep(clients []*simClient, by time.Duration) {
	s.tracef("all machines sleep for %v", by)
	s.mu.Lock()
	s.sleeps = append(s.sleeps, simJump{time.Now(), by})
	s.mu.Unlock()
	for _, c := range clients {
		c.jump(by)
	}
	for _, n := range s.nodes {
		s.must(n.LeapClock(by))
	}
}

// jump has the client's wall clock jump forward, as after a sleep of its machine.
func (c *simClient) jump(by time.Duration) {
	s := c.s
	s.mu.Lock()
	if c.back { // What nobody has seen of a step back comes off the next one forward.
		testkit.ClockOf(c.r).Now()
	}
	c.back, c.jumps = false, append(c.jumps, simJump{time.Now(), by})
	testkit.WallOffset(c.r).Add(int64(by))
	s.mu.Unlock()
	s.tracef("the wall clock of %s jumps by %v", c.name, by)
}

// jumpBack has it jump back, which must change nothing.
func (c *simClient) jumpBack(by time.Duration) {
	s := c.s
	s.mu.Lock()
	c.back = true
	testkit.WallOffset(c.r).Add(-int64(by))
	s.mu.Unlock()
	s.tracef("the wall clock of %s jumps back by %v", c.name, by)
}

// jumpedSince reports whether the client's wall clock has jumped forward since t.
func (c *simClient) jumpedSince(t time.Time) bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return slices.ContainsFunc(c.jumps, func(j simJump) bool { return !j.at.Before(t) })
}

// cutShort is when a time ends that began at start and would end at end, if jumps, in their order, come off it.
func cutShort(start, end time.Time, jumps []simJump) time.Time {
	for _, j := range jumps {
		if !j.at.Before(start) && j.at.Before(end) {
			end = laterOf(j.at, end.Add(-j.by))
		}
	}
	return end
}

// passed is when a time ends that began at start and would end at end, by clocks that count the sleep.
func (s *sim) passed(start, end time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cutShort(start, end, s.sleeps)
}

// keptTo is until when, at least, the keys of a lock with a min hold outlive its release, if that is counted from the
// time from: min holds pass by the nodes' clocks.
func (l *simLock) keptTo(from time.Time) time.Time {
	return l.s.passed(from, from.Add(l.s.soonest(l.o.minHold)))
}
