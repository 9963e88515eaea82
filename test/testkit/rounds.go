package testkit

import (
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// Rounds is how often a test does what it repeats: usual times, or short times with -short,
// where every test has to be quick and one round of each kind is what counts.
func Rounds(usual, short int) int {
	if testing.Short() {
		return short
	}
	return usual
}

// Scenario is how long a scenario runs, in real or in fake time, or a step of it takes; see
// [Rounds].
func Scenario(usual, short time.Duration) time.Duration {
	if testing.Short() {
		return short
	}
	return usual
}

// SkipUnderRace leaves a test out under the race detector: of what says why, that has nothing to find.
func SkipUnderRace(t *testing.T, why string) {
	t.Helper()
	if testcluster.RaceEnabled {
		t.Skip(why)
	}
}

// Between is uniform.
func Between(rng *rand.Rand, a, b time.Duration) time.Duration {
	return a + time.Duration(rng.Int64N(int64(b-a)+1))
}

// Magnitude prefers no order of magnitude.
func Magnitude(rng *rand.Rand, a, b time.Duration) time.Duration {
	for {
		if top := a << rng.IntN(40); top >= a && top < 2*b {
			return min(b, Between(rng, top, 2*top))
		}
	}
}

// Seed is what a test draws its numbers from: another one each time, or that of TEST_SEED. One that fails has it in its
// output.
func Seed(t *testing.T) uint64 {
	t.Helper()
	seed := EnvNumber(t, "TEST_SEED", rand.Uint64())
	t.Logf("TEST_SEED=%d", seed)
	return seed
}

// EnvNumber is the number in a variable of the environment, or otherwise.
func EnvNumber(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	require.NoError(t, err, name)
	return n
}

// Heap is how many bytes are allocated and in use.
func Heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Pick returns one of several values.
func Pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// The defaults of options, as documented.
const (
	DefaultDriftFactor    = 0.01
	DefaultNodeTimeout    = 250 * time.Millisecond
	DefaultConnectTimeout = time.Second
)
