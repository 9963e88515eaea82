package node

import "time"

// This file decides when to connect again after a connection has ended.

// How long to back off from a server after a failure, at first and at most.
const (
	MinBackoff = 20 * time.Millisecond
	MaxBackoff = time.Second // package link varies it by ± 50 %

	// lasting is how long a connection must last to count as one that worked, whatever it answered.
	lasting = time.Second

	// Redials is how many connections may be made at once, one after the other, and redialEvery the time after which
	// one more may be: a server that answers one request and hangs up must not be dialled in a loop.
	Redials     = 10
	redialEvery = 100 * time.Millisecond
)

// A Redialer decides when a node's next attempt to connect is due. A connection that has served an answer and breaks is
// replaced at once: with a wait after each short one, nodes behind a proxy that recycles connections, or on a link that
// flaps, would be away for most of the time. It waits if the server did not get as far as an answer, or answered that
// it is the wrong one.
type Redialer struct {
	backoff time.Duration // the latest wait after a failure; 0: none since something worked
	free    time.Time     // when a further attempt at once would be due, without the allowance of Redials
}

// After returns how long to wait when a connection has ended now after it has lasted for that long.
func (d *Redialer) After(served, wrongServer bool, lasted time.Duration, now time.Time) time.Duration {
	worked := lasted >= lasting || served && !wrongServer
	if worked {
		d.backoff = 0
	}
	if !worked || wrongServer {
		return d.Failed()
	}
	if d.free.Before(now) {
		d.free = now
	}
	d.free = d.free.Add(redialEvery)
	return max(0, d.free.Sub(now)-Redials*redialEvery)
}

// Failed returns how long to wait after an attempt that failed: twice as long each time.
func (d *Redialer) Failed() time.Duration {
	d.backoff = min(max(2*d.backoff, MinBackoff), MaxBackoff)
	return d.backoff
}
