package clockwatch

import "time"

// A Deadline is one instant on both of the client's clocks. The monotonic one
// is right while the machine is awake but may stand still while it sleeps
// (golang.org/issue/24595); the wall clock goes on but can be set. A lock has
// ended as soon as either of them says so, so that a wrong step of the wall
// clock can only end it early.
type Deadline struct {
	Mono time.Time // carries a monotonic reading
	Wall time.Time // without one
}

// NewDeadline is the instant d after start; wallOffset is added to the wall
// clock (only tests use another than 0, to play a suspend).
func NewDeadline(start time.Time, d, wallOffset time.Duration) Deadline {
	return Deadline{Mono: start.Add(d), Wall: start.Round(0).Add(wallOffset + d)}
}

// IsZero reports whether it is no deadline at all.
func (d Deadline) IsZero() bool { return d.Mono.IsZero() }

// Passed reports whether either clock has reached the deadline.
func (d Deadline) Passed(now time.Time, wallOffset time.Duration) bool {
	return !now.Before(d.Mono) || !now.Round(0).Add(wallOffset).Before(d.Wall)
}

// Remaining is the time until either clock reaches the deadline: 0 or less if one
// has.
func (d Deadline) Remaining(now time.Time, wallOffset time.Duration) time.Duration {
	return min(d.Mono.Sub(now), d.Wall.Sub(now.Round(0).Add(wallOffset)))
}

// Later returns the later of two deadlines. Never one clock of each: a wall
// clock that was set back between them would be ignored until it had caught up.
func (d Deadline) Later(e Deadline) Deadline {
	if e.Mono.After(d.Mono) {
		return e
	}
	return d
}
