package client

import (
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

const (
	// tick is how often a process sees that it runs.
	tick = 20 * time.Millisecond
	// stalled is the least time without a tick that counts: less is within the judge's slack.
	stalled = 100 * time.Millisecond
)

// tellStalls tells of each time in which this process did not run, as on a machine that is busy: what it does late because
// of that is no fault of the library.
func (r *recorder) tellStalls() {
	last := r.clock.Now()
	for range time.Tick(tick) {
		if now := r.clock.Now(); now-last >= int64(stalled) {
			r.log(history.Event{At: last, Kind: history.FaultBegin, Fault: history.Stall, Detail: "the process found that it had not run"})
			r.log(history.Event{At: now, Kind: history.FaultEnd, Fault: history.Stall})
		}
		last = r.clock.Now() // To wait for the observer is to run.
	}
}
