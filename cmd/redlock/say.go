package main

import (
	"fmt"
	"time"
)

// noteTimeout is how long a remark may take to be written. A terminal that is stopped (Ctrl-S)
// must not hold up what is to be done about the lock.
const noteTimeout = 200 * time.Millisecond

// note writes a remark to standard error.
func (t *tool) note(text string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if t.global.json {
			writeJSON(t.errOut, struct {
				Note string `json:"note"`
			}{text})
			return
		}
		fmt.Fprintf(t.errOut, "%s %s\n", t.styleFor(t.errOut).yellow("redlock:"), text)
	}()
	select {
	case <-done:
	case <-time.After(noteTimeout):
	}
}
