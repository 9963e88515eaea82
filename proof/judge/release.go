package judge

import (
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/proof/history"
)

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
	p := l.place(l.acquired.begin.At, c.end.At)
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

// earlyLoss looks at what calls and loss signals said of a lock before Until. If nobody had begun to release it, and no
// node lost its data meanwhile, then a quorum has its keys, unless somebody has deleted what was not its own. A holder
// whose own clocks say that the lock has expired is another matter: they may end it early.
func earlyLoss(r *run, f *findings) {
	for _, l := range r.got {
		if !l.exact {
			continue
		}
		asked, told := l.firstSaid()
		if told.At == 0 || told.At >= l.until || r.lostData(-1, l.asked, told.At) {
			continue
		}
		f.facts++
		if told.Outcome == history.OutcomeLost && !strings.Contains(told.Err, "expired") {
			p := place{from: l.acquired.begin.At, to: told.At, resource: l.resources[0], clients: []string{l.client, told.Client}}
			f.violation(p, "%s was lost at %s, which was asked at %s, and it had until %s: nobody had released it", l,
				at(told.At), at(asked), at(l.until))
		}
	}
}

// firstSaid is what was said of a lock last, until it was said to be lost, or its release had begun: when that was asked,
// and the answer. It has no time if nothing was said.
func (l *lock) firstSaid() (asked int64, told history.Event) {
	ends := slices.Concat(l.unlocks, l.releases)
	released := func(before int64, but *call) bool {
		return slices.ContainsFunc(ends, func(c *call) bool { return c != but && c.begin.At <= before })
	}
	for _, c := range slices.Concat(l.extends, ends) {
		if c.end == nil || !c.ok() && !c.lost() || released(c.end.At, c) {
			continue
		}
		if told.At == 0 || c.lost() {
			asked, told = c.begin.At, *c.end
		}
	}
	if l.gone() && !released(l.lost.At, nil) {
		return l.lost.At, *l.lost
	}
	return asked, told
}
