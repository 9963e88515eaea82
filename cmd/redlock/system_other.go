//go:build unix && !linux

package main

import (
	"syscall"
	"time"
)

// bootTime is a clock that all processes of the machine share, and that goes on while the
// machine sleeps.
func bootTime() time.Duration { return time.Duration(time.Now().UnixNano()) }

func adoptOrphans() {}

func endWithRedlock() {}

func outliveThreads() {}

// tellOrphans has a group end that has lost its redlock.
func tellOrphans(group int) { _ = syscall.Kill(-group, syscall.SIGTERM) }

func nameProcess(string) {}
