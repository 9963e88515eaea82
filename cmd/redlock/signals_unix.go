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

// status is how redlock ends after the command.
func (e ending) status() status { return status{code: e.code, signal: e.signal} }

// statusOf is how redlock ends by a signal.
func statusOf(sig os.Signal) status {
	s := sig.(syscall.Signal)
	return status{code: exitSignal + int(s), signal: s}
}

// watchSignals returns a channel with the signals that end the wait for the lock, and are
// forwarded once it is over.
func watchSignals() chan os.Signal {
	signals := make(chan os.Signal, 16)
	notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	return signals
}

// endsWait reports whether a signal ends the wait for the lock.
func endsWait(sig os.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP:
		return true
	}
	return false
}
