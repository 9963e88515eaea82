package simulation

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/testkit"
)

// The simulation has clients use locks at random over nodes that fail at random, and checks all the time what the library
// promises. Time is fake, so that the checks of times are exact and a minute costs nothing. There is one engine
// (engine_test.go is its beginning), and each test below is a profile, as docs/testing.md says.
//
//	SIM_SEEDS=n     runs the seeds 1 to n of each profile; SIM_SEEDS=long as many as make sim
//	SIM_FIRST=k     begins at seed k instead of 1
//	SIM_SEED=k      runs only seed k and prints all that happened
//
// A seed fixes the schedule: the cluster, the clients, what they do and when, every fault
// and every delay. It does not fix what the Go scheduler does with goroutines that are
// runnable at the same instant, nor the library's own random numbers (tokens, retry
// delays). A failure may need its seed several times to show again: SIM_SEED=k with
// -count.
//
// The numbers in messages are those of the promises:
//
//	(1) two locks on one resource are never held at the same time
//	(2) fences are unique and grow
//	(3) a quorum of nodes stores a held lock until Until
//	(4) a lock ends once, at Until at the latest, and says why; so do the contexts of a hold
//	(5) no key and no release is left
//	(6) a minority of nodes costs nothing: a kept lock goes on
//	(7) every call ends in its time, and at once with its context or with Close
//	(8) errors say why
//	(9) who waits gets a lock soon after it is free
//	(10) no goroutine and no connection is left
func TestSimRandomSchedules(t *testing.T) {
	simulate(t, simSeeds{short: 3, race: 30, full: 150, long: 150}, runRandom)
}

func TestSimWaiting(t *testing.T) {
	simulate(t, simSeeds{short: 3, race: 30, full: 150, long: 150}, runWaiting)
}

// See also TestSimQuarantineIsNeeded.
func TestSimQuarantine(t *testing.T) {
	simulate(t, simSeeds{short: 1, race: 15, full: 75, long: 75}, func(s *sim) { runQuarantine(s, true) })
}

func TestSimReleaseByAnotherProcess(t *testing.T) {
	simulate(t, simSeeds{short: 5, race: 50, full: 400, long: 1500}, runRelease)
}

func TestSimOverload(t *testing.T) {
	simulate(t, simSeeds{short: 1, race: 5, full: 50, long: 150}, runOverload)
}

func TestSimHeldLocks(t *testing.T) {
	simulate(t, simSeeds{short: 40, race: 500, full: 3000, long: 10000}, runHeld)
}

func TestSimSemaphore(t *testing.T) {
	simulate(t, simSeeds{short: 3, race: 12, full: 100, long: 300}, runSemaphore)
}

func TestSimMinHold(t *testing.T) {
	simulate(t, simSeeds{short: 8, race: 40, full: 200, long: 1000}, runMinHold)
}

// See also TestSimGrowingByTwoAtATime.
func TestSimGrowing(t *testing.T) {
	simulate(t, simSeeds{short: 2, race: 10, full: 200, long: 1000}, func(s *sim) { runGrow(s, 1) })
}

// simSeeds has how many seeds of a profile are run: with -short, under the race detector,
// at full size, and by make sim.
type simSeeds struct{ short, race, full, long int }

// span returns the first and the last seed.
func (n simSeeds) span(t *testing.T) (first, last uint64) {
	t.Helper()
	if seed := testkit.EnvNumber(t, "SIM_SEED", 0); seed > 0 {
		return seed, seed
	}
	first = testkit.EnvNumber(t, "SIM_FIRST", 1)
	count := uint64(testkit.Rounds(n.full, n.short))
	if testcluster.RaceEnabled { // It looks for other things than the promises.
		count = uint64(testkit.Rounds(n.race, (n.short+2)/3))
	}
	if os.Getenv("SIM_SEEDS") == "long" {
		count = uint64(n.long)
	} else {
		count = testkit.EnvNumber(t, "SIM_SEEDS", count)
	}
	return first, first + count - 1
}

// simulate runs a profile with many seeds.
func simulate(t *testing.T, seeds simSeeds, profile func(s *sim)) {
	t.Helper()
	first, last := seeds.span(t)
	parts := uint64(runtime.GOMAXPROCS(0))
	for part := range min(parts, last-first+1) {
		t.Run(fmt.Sprintf("part=%d", part), func(t *testing.T) {
			t.Parallel()
			for seed := first + part; seed <= last; seed += parts {
				inSim(t, seed, func(s *sim) {
					profile(s)
					s.end()
					s.report()
				})
			}
		})
	}
}

// seeOverlaps checks that the simulation sees locks that overlap, in some seeds of a profile in which something is
// broken.
func seeOverlaps(t *testing.T, first, seeds int, broken func(s *sim)) {
	t.Helper()
	testkit.SkipUnderRace(t, "whether the simulation sees what is broken is no matter of races")
	seen := 0
	for seed := first; seed < first+seeds; seed++ {
		inSim(t, uint64(seed), func(s *sim) {
			broken(s)
			s.end()
			if slices.ContainsFunc(s.failures, func(f string) bool { return strings.HasPrefix(f, "(1) ") }) {
				seen++
			}
		})
	}
	assert.Greater(t, seen, seeds/3)
}

// inSim runs fn in a bubble. A deadlock or a goroutine that is left behind makes synctest
// panic; the name of the test then says the seed.
func inSim(t *testing.T, seed uint64, fn func(s *sim)) {
	t.Helper()
	t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { fn(newSim(t, seed)) })
	})
}
