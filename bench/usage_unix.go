//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuTime returns the processor time that this process has used, in user and
// system mode. It is 0 where the system does not tell. Child processes, which
// the servers are, do not count before they have ended.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
