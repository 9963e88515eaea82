package testcluster

import (
	"cmp"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// An embeddedClock is an embedded server's own clock, by which its keys expire. The zero value shows the time of the
// test. One that was set shows the server the time before each command; within a command it stands still.
type embeddedClock struct {
	mu    sync.Mutex // before the server's
	rate  float64    // how fast it runs; 0: it was not set
	since time.Time  // when it was last set
	shown time.Time  // what it showed then
}

// set has the clock leap forward, and run at this rate from now on; 0 is the rate that it has.
func (c *embeddedClock) set(rate float64, leap time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.shown = c.at(now).Add(leap)
	c.since, c.rate = now, cmp.Or(rate, c.rate, 1)
}

// at is what the clock shows at the time now. c.mu is held.
func (c *embeddedClock) at(now time.Time) time.Time {
	if c.rate == 0 {
		return now.UTC()
	}
	return c.shown.Add(time.Duration(float64(now.Sub(c.since)) * c.rate))
}

// show has the server see the time.
func (c *embeddedClock) show(mini *miniredis.Miniredis) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rate != 0 {
		mini.SetTime(c.at(time.Now()))
	}
}
