package judge

import "slices"

// releaseOutcome looks at every Unlock and Release that returned nil.
//
// A nil Unlock says that the lock was held when the call began, by its holder's clocks. A further Unlock returns what has
// become of the first one, so the first one counts. A nil Release says that a quorum of nodes still had the lock's keys:
// so nobody had succeeded it, and nobody had released it before.
func releaseOutcome(r *run, f *findings) {
	for _, c := range r.inOrder {
		l := r.lockOf(c.begin)
		if l == nil || !c.ok() {
			continue
		}
		switch {
		case slices.Contains(l.unlocks, c):
			unlockOutcome(r, f, l, c)
		case slices.Contains(l.releases, c):
			f.facts++
			tokenOutcome(r, f, l, c)
		}
	}
}

// unlockOutcome looks at a nil Unlock of l.
func unlockOutcome(r *run, f *findings, l *lock, c *call) {
	first := l.unlocks[0]
	p := place{from: l.acquired.begin.At, to: c.end.At, resource: l.resources[0], clients: []string{l.client}}
	if l.exact {
		f.facts++
		if late := first.begin.At - l.until - r.header.OverlapSlack; late > 0 {
			f.violation(p, "%s returned nil, and the lock had ended at %s, before the call", c, at(l.until))
		}
	}
	told := int64(0) // when the holder heard of a loss
	if l.gone() {
		told = l.lost.At
	}
	for _, e := range l.extends {
		if e.lost() && (told == 0 || e.end.At < told) {
			told = e.end.At
		}
	}
	if told == 0 {
		return
	}
	f.facts++
	if told < first.begin.At {
		f.violation(p, "%s returned nil, and the holder had been told at %s that the lock was lost", c, at(told))
	}
}

// tokenOutcome looks at a nil Release of l.
func tokenOutcome(r *run, f *findings, l *lock, c *call) {
	for _, res := range l.resources {
		for _, next := range r.byResource[res] {
			if next.got >= c.begin.At {
				break // They are in the order in which they were got.
			}
			if next.asked > l.got {
				f.violation(place{from: next.acquired.begin.At, to: c.end.At, resource: res, clients: []string{l.client, next.client, c.client}},
					"%s returned nil for %s, and %s had been got at %s", c, l, next, at(next.got))
				return
			}
		}
	}
	for _, other := range slices.Concat(l.unlocks, l.releases) {
		if other.ok() && other.end.At < c.begin.At {
			f.violation(place{from: other.begin.At, to: c.end.At, resource: l.resources[0], clients: []string{other.client, c.client}},
				"%s returned nil for %s, which %s had released before", c, l, other)
			return
		}
	}
}
