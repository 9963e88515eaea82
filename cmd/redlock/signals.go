package main

import (
	"os"
	"os/signal"
)

// notify asks for signals. Those that redlock was started to ignore (nohup, a job in the
// background of a script) stay ignored.
func notify(signals chan<- os.Signal, which ...os.Signal) {
	for _, sig := range which {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
}
