package node

import (
	"math"
	"time"
)

// The time limits of a connection. How long connecting takes says nothing about how long a request takes.

const (
	// MinSilence is the least time without an answer after which a connection counts as broken. It is above what a
	// few lost packets in a row cost, and with a check every WatchInterval, a dead connection is found within about a
	// second.
	MinSilence = time.Second

	// WatchInterval is how often the watchdog looks while there is traffic.
	WatchInterval = 250 * time.Millisecond

	// minConnect is the least time that an attempt to connect may take, handshake included, even for a subscription.
	// Connecting takes several round trips, and TLS.
	minConnect = time.Second
)

// IdlePing is how long a connection may be silent in both directions before it is sent a PING: below the 60 s after
// which servers with `timeout 60` and many firewalls forget it.
const IdlePing = 15 * time.Second

// Silence returns how long a request with that timeout may be unanswered before the connection counts as broken. It is
// not many times the timeout: that would keep a dead connection for seconds.
func Silence(timeout time.Duration) time.Duration {
	return max(2*timeout, MinSilence)
}

// ConnectLimit returns how long an attempt to connect may take.
func ConnectLimit(nodeTimeout time.Duration) time.Duration {
	return max(2*nodeTimeout, minConnect)
}

// A roundTrip is a smoothed round-trip time: at first the mean of eight samples, then as in TCP: one slow reply moves
// it by an eighth, and it follows a change within a dozen replies. TCP begins with the first sample, but an idle client
// has one sample in 15 s, and would call a node slow for minutes after one lost packet.
type roundTrip struct {
	smoothed time.Duration // 0 before the first sample
	samples  int           // up to eight
}

// add takes a sample. A server may answer a request before it is asked, which takes no time.
func (r *roundTrip) add(sample time.Duration) {
	r.samples = min(r.samples+1, 8)
	r.smoothed += (max(sample, 0) - r.smoothed) / time.Duration(r.samples)
}

// after returns the instant d after now, or the end of time if that is beyond it.
func after(now, d time.Duration) time.Duration { return now + min(d, math.MaxInt64-now) }
