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

// minHold compares each lock with the last one before it on its resource that has a min hold. Release by token ends that,
// and what was got at one time is for other rules.
func minHold(r *run, f *findings) {
	for _, res := range r.resources {
		var last *lock
		for _, l := range r.byResource[res] {
			if l.over <= l.got {
				continue
			}
			if last != nil {
				f.facts++
				if end := r.used(last) + r.leastHold(last); l.got < end {
					p := place{from: last.got, to: end, resource: res, clients: []string{last.client, l.client}}
					p.since = last.acquired.begin.At
					f.violation(p, "%s got %s at %s, with a min hold of %s, and %s got it at %s", last, res, at(last.got),
						span(0, last.acquired.begin.MinHold), l, at(l.got))
				}
			}
			if last = nil; l.acquired.begin.MinHold > 0 && len(l.releases) == 0 {
				last = l
			}
		}
	}
}
