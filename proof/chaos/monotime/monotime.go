// Package monotime reads the clock that all processes of a machine share and that nothing steps: CLOCK_MONOTONIC.
package monotime

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// Now is that clock, in nanoseconds.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// A Clock shows times of this process on that clock, counted from the start of a run.
type Clock struct {
	origin time.Time
	at     int64
}

// Since returns a clock that counts from start, a reading of [Now].
func Since(start int64) Clock {
	// The two clocks are read one after the other; the pair that took least is closest.
	c, least := Clock{}, int64(math.MaxInt64)
	for range 50 {
		before, t, after := Now(), time.Now(), Now()
		if after-before < least {
			c, least = Clock{origin: t, at: before - start}, after-before
		}
	}
	return c
}

// Of is when t is, which must have a monotonic reading.
func (c Clock) Of(t time.Time) int64 { return c.at + int64(t.Sub(c.origin)) }

// Now is the present moment.
func (c Clock) Now() int64 { return c.Of(time.Now()) }
