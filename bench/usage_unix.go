//go:build unix

package main

import (
	"syscall"
	"time"
)

// rusage returns the processor time of this process, or 0.
func rusage() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
