package lease

import "time"

// A Turn is one lock of the nodes that callers of one process have one after the other: until it is over, a release
// passes the lock on to the next of them, and no node is told. Nodes keep the claim's token and its fence all the while.
type Turn struct {
	ends Deadline
	next int64 // the smallest fence of its own that nobody has had; 0: without fencing
	last int64 // the largest: that of the nodes
}

// enoughValidity is which part of the validity that a caller has asked for it gets at least, by a lock that is passed on.
const enoughValidity = 0.9

// NewTurn is the turn of a round that was granted now.
func (r *Round) NewTurn(length time.Duration, now time.Time) Turn {
	at, lead := r.Clock(now)
	t := Turn{ends: NewDeadline(at, length, lead)}
	if f := r.Fencing; f != nil {
		// More numbers than a turn has microseconds are of no use, and those further below are nearer to what nodes that
		// lose data have given.
		t.next, t.last = max(f.Below, f.Fence-max(length.Microseconds(), 1))+1, f.Fence
	}
	return t
}

// Fence takes the next fence of the turn; 0 without fencing, and when there are no more.
func (t *Turn) Fence() (fence int64) {
	if t.next <= t.last {
		fence = t.next
		t.next++
	}
	return fence
}

// MayPass reports whether l, whose release has begun, may be passed on now to a caller that has asked for so much
// validity, of which its work is to stop stopTime before the end: if it was held to that release, and goes on for long
// enough, and its turn is not over.
func (l *Lease) MayPass(t *Turn, validity, stopTime time.Duration, now time.Time) bool {
	at, lead := l.Clock(now)
	left := l.Until.Remaining(at, lead) - stopTime
	validity -= stopTime
	return l.Before == Undecided && !l.again && float64(left) >= enoughValidity*float64(validity) &&
		!t.ends.Passed(at, lead) && (t.last == 0 || t.next <= t.last)
}

// Lose ends a lease as it was found lost.
func (l *Lease) Lose(now time.Time) { l.end(Lost, now) }

// Pass is the lease of whom l is passed on to now. What nodes are to be given again goes with it.
func (l *Lease) Pass(now time.Time) Lease {
	next := Lease{Config: l.Config, Start: now, Extended: l.Extended, Until: l.Until, repairs: l.repairs}
	l.repairs = nil
	return next
}
