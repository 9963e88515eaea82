package redlock

import (
	"math"
	"time"
)

// minDrift is the constant part of the drift allowance. Redis rounds expiry
// to the millisecond and never shortens a key by it, so this is margin.
const minDrift = 2 * time.Millisecond

// drift is the part of a ttl that is given up because the clocks of the client
// and of the nodes run at different rates: factor*ttl + 2ms, rounded up.
// For a ttl of 10 s and the default factor of 0.01 it is 102 ms.
func drift(ttl time.Duration, factor float64) time.Duration {
	d := math.Ceil(float64(ttl) * factor)
	if d >= float64(maxDuration-minDrift) {
		return maxDuration
	}
	return time.Duration(d) + minDrift
}

const maxDuration = time.Duration(math.MaxInt64)

// validity is how long a lock may be relied on, counted from the instant
// before its first request was sent. It may be zero or negative.
func validity(ttl time.Duration, factor float64) time.Duration {
	return ttl - drift(ttl, factor)
}

// serverMillis is the ttl as a node is told it: whole milliseconds, rounded
// up. Rounding down would let a key expire before the validity that the client
// computes from the exact value; a ttl below 1 ms would even become 0.
func serverMillis(ttl time.Duration) int64 {
	ms := int64(ttl / time.Millisecond)
	if ttl%time.Millisecond != 0 {
		ms++
	}
	return ms
}

// A deadline is one instant on both of the client's clocks. The monotonic one
// is right while the machine is awake but may stand still while it sleeps
// (golang.org/issue/24595); the wall clock goes on but can be set. A lock has
// ended as soon as either of them says so, so that a wrong step of the wall
// clock can only end it early.
type deadline struct {
	mono time.Time // carries a monotonic reading; what Until reports
	wall time.Time // without one
}

// newDeadline is the instant d after start; wallOffset is added to the wall
// clock (only tests use another than 0, to play a suspend).
func newDeadline(start time.Time, d, wallOffset time.Duration) deadline {
	return deadline{mono: start.Add(d), wall: start.Round(0).Add(wallOffset + d)}
}

// isZero reports whether it is no deadline at all.
func (d deadline) isZero() bool { return d.mono.IsZero() }

// passed reports whether either clock has reached the deadline.
func (d deadline) passed(now time.Time, wallOffset time.Duration) bool {
	return !now.Before(d.mono) || !now.Round(0).Add(wallOffset).Before(d.wall)
}

// remaining is the time until either clock reaches the deadline: 0 or less if one
// has.
func (d deadline) remaining(now time.Time, wallOffset time.Duration) time.Duration {
	return min(d.mono.Sub(now), d.wall.Sub(now.Round(0).Add(wallOffset)))
}

// later returns the later of two deadlines. Never one clock of each: a wall
// clock that was set back between them would be ignored until it had caught up.
func (d deadline) later(e deadline) deadline {
	if e.mono.After(d.mono) {
		return e
	}
	return d
}
