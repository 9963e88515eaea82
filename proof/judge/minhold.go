package judge

import (
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// unseen is how long a thread may stand still between the last step of a call and the time that it writes, although its
// process tells of no stall.
const unseen = int64(30 * time.Millisecond)

// used is a time before which the caller did not get the lock. If its process stood still when the call returned, nobody
// knows since when.
func (r *run) used(l *lock) int64 {
	from := l.got - unseen
	for _, p := range slices.Backward(r.stood(l.client, history.Freeze, history.Stall)) {
		if p.from <= l.got && p.to >= from {
			from = p.from
		}
	}
	return max(from, l.acquired.begin.At)
}

// leastHold is how long a lock's min hold is by the clock of a run: nodes' clocks may be fast.
func (r *run) leastHold(l *lock) int64 {
	return int64(float64(l.acquired.begin.MinHold) * (1 - r.header.Drift))
}
