package node

import (
	"math"
	"time"
)

// The limits of time of a connection. What a connection takes has nothing to do with what
// a request on it takes.

const (
	// MinSilence is the least time without an answer after which a connection
	// counts as broken. It is above what a few lost packets in a row cost, and
	// with a check every WatchInterval, a dead connection is found within
	// about a second.
	MinSilence = time.Second

	// WatchInterval is how often the watchdog looks while there is traffic.
	WatchInterval = 250 * time.Millisecond

	// minConnect is the least time that an attempt to connect may take, handshake
	// included, also one for a subscription. Making a connection is not
	// answering a request: it takes several round trips, and TLS.
	minConnect = time.Second
)

// Silence is how long a request that somebody waits for timeout for may be
// unanswered before the connection counts as broken. It is not many times the
// timeout: that would keep a dead connection for seconds.
func Silence(timeout time.Duration) time.Duration {
	return max(2*timeout, MinSilence)
}

// ConnectLimit is how long an attempt to connect may take.
func ConnectLimit(nodeTimeout time.Duration) time.Duration {
	return max(2*nodeTimeout, minConnect)
}

// smoothed is a round-trip time to which a sample has come, as TCP does it: one slow reply moves
// it by an eighth, and it follows a change within a dozen replies. A server may answer what it has not
// been asked yet, which takes no time.
func smoothed(rtt, sample time.Duration) time.Duration {
	sample = max(sample, 0)
	if rtt == 0 {
		return sample
	}
	return rtt + (sample-rtt)/8
}

// after is the instant d after now; the end of time if that is beyond it.
func after(now, d time.Duration) time.Duration { return now + min(d, math.MaxInt64-now) }
