package node

import "time"

// This file is about when a connection that has ended is made again.

// How long a server is backed off from after a failure, at first and at most.
const (
	MinBackoff = 20 * time.Millisecond
	MaxBackoff = time.Second // package link varies it by ± 50 %

	// lasting is how long a connection has to last to count as one that worked, whatever was answered on it.
	lasting = time.Second

	// Redials is how many connections may be made at once, one after the other, and redialEvery after which time one
	// more: a server that answers one request and hangs up is not to be dialled in a loop.
	Redials     = 10
	redialEvery = 100 * time.Millisecond
)

// A Redialer says when a node's next attempt to connect is due. A connection that has served an answer and breaks is
// made again at once: with a wait after each one that was short, nodes behind a proxy that recycles connections, or
// on a link that flaps, would be away for most of the time. It waits for a server that does not get as far as an
// answer, or whose answer was that it is the wrong one.
type Redialer struct {
	backoff time.Duration // the latest wait after a failure; 0: none since something worked
	free    time.Time     // when the next attempt at once has its turn, but for redials of them
}

// After returns how long to wait when a connection has ended now that has lasted for so long.
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
