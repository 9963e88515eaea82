//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// A status is how the program ends: with a code, or, after a command that a signal has ended,
// by the same signal, so that a shell sees what it would have seen of the command.
type status struct {
	code   int
	signal syscall.Signal
}

// exit ends the program. Only signals that people send are repeated: others would dump core
// once more, and the Go runtime keeps SIGQUIT for itself. The first process of a container has only
// the code, which a shell shows for the signal: the kernel does not let a signal of its own end it.
func (s status) exit() {
	switch s.signal {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL:
		if os.Getpid() == 1 {
			break
		}
		signal.Reset(s.signal)
		_ = syscall.Kill(os.Getpid(), s.signal)
		time.Sleep(100 * time.Millisecond) // It comes at any moment.
	}
	os.Exit(s.code)
}
