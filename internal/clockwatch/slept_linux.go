package clockwatch

import (
	"syscall"
	"time"
	"unsafe"
)

// The numbers of clocks in linux/time.h.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// slept returns how long the machine has slept since it was started: the difference between the clock that counts sleep
// and the one that does not. It is right to half a jump.
func slept() (time.Duration, bool) {
	const tries = 10
	for range tries {
		before, _ := read(clockMonotonic)
		boot, ok := read(clockBoottime)
		after, _ := read(clockMonotonic)
		if !ok {
			break
		}
		if after-before < jump/2 { // Otherwise this thread did not run in between.
			return boot - after, true
		}
	}
	return 0, false
}

// read reads a clock by a system call, which takes longer than time.Now, but package time has no such clock.
func read(clock uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
