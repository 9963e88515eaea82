package lease

import "time"

// A Deadline is one instant by a clock that may stand still while the machine sleeps: see package clockwatch.
type Deadline struct {
	Mono time.Time // carries a monotonic reading

	lead time.Duration // of the clock when the deadline was set: what it gains from then on comes off
}

// NewDeadline is the instant d after start; lead is that of the clock at start.
func NewDeadline(start time.Time, d, lead time.Duration) Deadline {
	return Deadline{Mono: start.Add(d), lead: lead}
}

// Passed reports whether the deadline has been reached.
func (d Deadline) Passed(now time.Time, lead time.Duration) bool { return d.Remaining(now, lead) <= 0 }

// Remaining is the time until the deadline is reached: 0 or less if it has been.
func (d Deadline) Remaining(now time.Time, lead time.Duration) time.Duration {
	return d.Mono.Sub(now) - (lead - d.lead)
}

// Later returns the later of two deadlines.
func (d Deadline) Later(e Deadline) Deadline {
	if e.Mono.Add(e.lead).After(d.Mono.Add(d.lead)) {
		return e
	}
	return d
}
