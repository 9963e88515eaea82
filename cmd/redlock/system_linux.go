package main

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
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

// endWithRedlock has the kernel send SIGTERM to this process, and to the command that it becomes, when
// redlock ends: the guard may be killed with it. The kernel forgets it for a command that changes its
// user. It may send it again for each of redlock's threads: it gives the children of one that has ended to
// one that has not yet.
func endWithRedlock() {
	runtime.LockOSThread() // It is the thread's, and must be that which becomes the command.
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0)
}

// outliveThreads keeps this goroutine on one thread to the end of the process: to the kernel, it is the
// thread that has started a command whose end is meant.
func outliveThreads() { runtime.LockOSThread() }

// tellOrphans has a group end that has lost its redlock. The kernel has told the first process, which
// is not to be told twice.
func tellOrphans(group int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		_ = syscall.Kill(-group, syscall.SIGTERM)
		return
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != group && inGroup(pid, group) {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
}

// nameProcess is what ps and killall call this process.
func nameProcess(name string) { _ = os.WriteFile("/proc/self/comm", []byte(name), 0) }
