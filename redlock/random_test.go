package redlock

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
