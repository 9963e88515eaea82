package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime is a clock that all processes of the machine share, that nobody sets, and that goes
// on while the machine sleeps.
func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(ts.Nano())
}

// adoptOrphans makes what the command leaves behind children of redlock: where the first process
// of a container waits for nobody, it would stay in the group for ever.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }
