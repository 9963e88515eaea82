package lease

import (
	"math"
	"time"
)

// minDrift is the constant part of the drift allowance. Redis rounds expiry to the millisecond and never shortens a key
// by it, so this is margin.
const minDrift = 2 * time.Millisecond

const maxDuration = time.Duration(math.MaxInt64)

// Drift is the part of a ttl that is given up because the clocks of the client and of the nodes run at different rates:
// factor*ttl + 2ms, rounded up. For a ttl of 10 s and the default factor of 0.01 it is 102 ms.
func Drift(ttl time.Duration, factor float64) time.Duration {
	d := math.Ceil(float64(ttl) * factor)
	if d >= float64(maxDuration-minDrift) {
		return maxDuration
	}
	return time.Duration(d) + minDrift
}

// Validity is how long a lock may be relied on, counted from the instant before its first request was sent. It may be
// zero or negative.
func Validity(ttl time.Duration, factor float64) time.Duration { return ttl - Drift(ttl, factor) }

// TTLFor is the shortest ttl whose validity is as long as both durations together.
func TTLFor(a, b time.Duration, factor float64) time.Duration {
	ttl := math.Ceil((float64(a) + float64(b) + float64(minDrift)) / (1 - factor))
	return time.Duration(min(ttl, float64(math.MaxInt64/2)))
}
