package client

import (
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

const (
	// tick is how often a process sees that it runs.
	tick = 5 * time.Millisecond
	// stalled is the least time without a tick that is told.
	stalled = 20 * time.Millisecond
)

// A stall is a time in which this process did not run, or a worker waited for the observer.
type stall struct{ from, to int64 }

// findStalls looks at the clock again and again, and does nothing else: whoever writes may be held up by that, and would
// not see that the process is.
func (r *Recorder) findStalls() {
	last := r.Clock.Now()
	for range time.Tick(tick) {
		now := r.Clock.Now()
		if now-last >= int64(stalled) {
			r.stall(stall{last, now})
		}
		last = now
	}
}

// stall notes one, and never waits. Should there be too many to tell, the rest is not excused.
func (r *Recorder) stall(s stall) {
	select {
	case r.stalls <- s:
	default:
	}
}

// tellStalls tells of each, as on a machine that is busy: what the process does late because of that is no fault of the
// library.
func (r *Recorder) tellStalls() {
	for s := range r.stalls {
		r.Log(history.Event{At: s.from, Kind: history.FaultBegin, Fault: history.Stall, Detail: "the process found that it had not run"})
		r.Log(history.Event{At: s.to, Kind: history.FaultEnd, Fault: history.Stall})
	}
}
