package redlock

import "time"

// The limits of time that follow from the node timeout, and those that do not:
// what a connection takes has nothing to do with what a request on it takes.

const (
	// minSplit is the least time that a split vote gets, if the node timeout
	// allows it; splitPaces is how many round trips it gets where those take long.
	minSplit   = 100 * time.Millisecond
	splitPaces = 8

	// holdShare is the share of a lock's validity that an extension by KeepAlive
	// may wait for answers: extensions begin when a third of the validity is
	// over, so a second one still fits in if the first has been lost.
	holdShare = 3
)

// splitLimit is how long a split vote may take to be resolved, where a round
// trip takes pace.
func splitLimit(nodeTimeout, pace time.Duration) time.Duration {
	return min(nodeTimeout, max(minSplit, splitPaces*pace))
}
