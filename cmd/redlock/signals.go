package main

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// awaited is set once a command sees to the signals that end it.
var awaited atomic.Bool

// notify asks for signals. Those that redlock was started to ignore (nohup, a job in the
// background of a script) stay ignored.
func notify(signals chan<- os.Signal, which ...os.Signal) {
	listen(signals, which...)
	awaited.Store(true) // Not before: the signal in between would be lost.
}

func listen(signals chan<- os.Signal, which ...os.Signal) {
	for _, sig := range which {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
}

// endBySignals has the first process of a container end by signals with the exit code of others. The runtime would
// raise such a signal again, by which the kernel does not end the first process, and then exit with 2: of redlock
// check, that means a node is unfit. Where nobody reads an answer, the error of writing it remains.
func endBySignals() {
	if os.Getpid() != 1 {
		return
	}
	signals := make(chan os.Signal, 1)
	listen(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	listen(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		for sig := range signals {
			if !awaited.Load() {
				statusOf(sig).exit()
			}
		}
	}()
}
