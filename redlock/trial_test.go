package redlock

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A trial is one run of random things from a seed, in a bubble: what the
// simulations have in common. Whatever is noted in it is printed when an invariant
// does not hold, or when the seed was asked for.
//
// A seed fixes what happens, and when; it does not fix the order of what happens
// at the same instant.
type trial struct {
	t       *testing.T
	seed    uint64
	env     string // the variable that replays a seed
	verbose bool
	start   time.Time
	actors  uint64 // how many have got a rand of their own

	mu       sync.Mutex
	trace    []string
	failures []string
}

func newTrial(t *testing.T, env string, seed uint64) *trial {
	t.Helper()
	return &trial{t: t, seed: seed, env: env, verbose: os.Getenv(env) != "", start: time.Now()}
}

// inTrials runs fn in a bubble of its own for every step-th seed from first to
// last. A deadlock or a goroutine that is left behind makes synctest panic; the
// name of the test then says the seed.
func inTrials(t *testing.T, first, last, step uint64, fn func(t *testing.T, seed uint64)) {
	t.Helper()
	for seed := first; seed <= last; seed += step {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fn(t, seed) })
		})
	}
}

// envNumber is the number in a variable of the environment, or otherwise.
func envNumber(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	require.NoError(t, err, name)
	return n
}

// newRand returns a source of random numbers for one actor, so that the order
// in which the actors run does not change what each of them does.
func (s *trial) newRand() *rand.Rand {
	s.actors++
	return rand.New(rand.NewPCG(s.seed, s.actors))
}

// between is uniform; magnitude prefers no order of magnitude.
func between(rng *rand.Rand, a, b time.Duration) time.Duration {
	return a + time.Duration(rng.Int64N(int64(b-a)+1))
}

func magnitude(rng *rand.Rand, a, b time.Duration) time.Duration {
	for {
		if top := a << rng.IntN(40); top >= a && top < 2*b {
			return min(b, between(rng, top, 2*top))
		}
	}
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// offset shows an instant of the run.
func (s *trial) offset(t time.Time) string {
	if t.IsZero() {
		return "ever"
	}
	return t.Sub(s.start).String()
}

func (s *trial) tracef(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.traceLocked(fmt.Sprintf(format, args...))
}

func (s *trial) traceLocked(line string) {
	s.trace = append(s.trace, fmt.Sprintf("%14v  %s", time.Since(s.start), line))
}

// failf notes that an invariant does not hold.
func (s *trial) failf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	s.failures = append(s.failures, line)
	s.traceLocked("FAILED: " + line)
}

func (s *trial) must(err error) {
	if err != nil {
		s.failf("the test itself failed: %v", err)
	}
}

func (s *trial) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.failures) > 0
}

// report fails the test with what was noted.
func (s *trial) report() {
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
		s.t.Errorf("seed %d (replay: %s=%d):\n%s\n\ntrace:\n%s", s.seed, s.env, s.seed,
			strings.Join(s.failures[:min(len(s.failures), 10)], "\n"), strings.Join(trace, "\n"))
	} else if s.verbose {
		s.t.Logf("seed %d:\n%s", s.seed, strings.Join(trace, "\n"))
	}
}
