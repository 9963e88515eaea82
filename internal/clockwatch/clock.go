package clockwatch

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Clock knows how far the monotonic clock is behind. The monotonic clock is right while the machine is awake, but may
// stand still while it sleeps (golang.org/issue/24595). The other clocks go on then: the wall clock, which can be set,
// and on some systems a clock that counts the sleep.
//
// Its lead grows by whatever one of them gains on the monotonic clock, and never shrinks. So a wall clock that is set
// forward ends locks early, and one that is set back changes nothing. A comparison with a time from before a step back
// would be wrong: it would hide the next sleep.
type Clock struct {
	wall  func() time.Duration         // what is added to the wall clock
	slept func() (time.Duration, bool) // how long the machine has slept since it was started, if the system says so
	born  time.Time

	last atomic.Pointer[reading]
	mu   sync.Mutex // held to replace last
}

// A reading is what the clocks said at one moment.
type reading struct {
	skew  time.Duration // the wall clock less the monotonic one
	slept time.Duration
	lead  time.Duration
}

// jump is how far the wall clock may stray from the monotonic one before all clocks are read.
// Slewing is at most a few permille.
const jump = time.Millisecond

// NewClock returns a clock without a lead. wall returns what to add to the wall clock: 0 except in tests of a suspend.
func NewClock(wall func() time.Duration) *Clock { return newClock(wall, slept) }

func newClock(wall func() time.Duration, slept func() (time.Duration, bool)) *Clock {
	c := &Clock{wall: wall, slept: slept, born: time.Now()}
	asleep, _ := slept()
	c.last.Store(&reading{skew: c.skew(c.born), slept: asleep})
	return c
}

// Now returns the time and the lead, for a [Deadline].
func (c *Clock) Now() (now time.Time, lead time.Duration) { return c.At(time.Now()) }

// At returns now with its lead, or, if the clocks have moved since they were read, the time when it reads them: never
// a lead from after a sleep with a time from before it, as a deadline made of these would be too late by that sleep.
func (c *Clock) At(now time.Time) (at time.Time, lead time.Duration) {
	if last := c.last.Load(); c.isAt(last, now) {
		return now, last.lead
	}
	return c.read()
}

// isAt reports whether the clocks have not moved against each other between a reading and now. A time.Time has both of
// them, so this reads no clock.
func (c *Clock) isAt(last *reading, now time.Time) bool {
	moved := c.skew(now) - last.skew
	return -jump < moved && moved < jump
}

func (c *Clock) skew(now time.Time) time.Duration {
	return now.Round(0).Sub(c.born.Round(0)) + c.wall() - now.Sub(c.born)
}

// read reads all clocks.
func (c *Clock) read() (at time.Time, lead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.last.Load()
	slept, ok := c.slept() // Before the time, so that a sleep in between is in the wall clock's.
	if !ok || slept < last.slept+jump {
		slept = last.slept
	}
	at = time.Now()
	skew := c.skew(at)
	lead = last.lead + max(skew-last.skew, slept-last.slept, 0)
	c.last.Store(&reading{skew: skew, slept: slept, lead: lead})
	return at, lead
}
