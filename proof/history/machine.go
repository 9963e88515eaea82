package history

import (
	"math"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// Commit is that of the code that is run, and says whether it was changed since.
func Commit() string { return output("git", "describe", "--always", "--dirty") }

// Server is what the server says of itself.
func Server() string {
	bin, err := testcluster.ServerBinary()
	if err != nil {
		return ""
	}
	return output(bin, "--version")
}

// output is what a program says, or nothing.
func output(name string, args ...string) string {
	out, _ := exec.Command(name, args...).Output()
	return strings.TrimSpace(string(out))
}

// Monotonic reads CLOCK_MONOTONIC, in nanoseconds: all processes of a machine share it, and nothing steps it.
func Monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// A Clock shows times of this process on that clock, counted from the start of a run: those of events.
type Clock struct {
	origin time.Time
	at     int64
}

// ClockFrom returns a clock that counts from start, a reading of [Monotonic].
func ClockFrom(start int64) Clock {
	// The two clocks are read one after the other; the pair that took least is closest.
	c, least := Clock{}, int64(math.MaxInt64)
	for range 50 {
		before, t, after := Monotonic(), time.Now(), Monotonic()
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
