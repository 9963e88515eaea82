package judge

import (
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/proof/history"
)

// earlyLoss looks at what calls and loss signals said of a lock before Until. If nobody had begun to release it, and no
// node lost its data meanwhile, then a quorum has its keys, unless somebody has deleted what was not its own. A holder
// whose own clocks say that the lock has expired is another matter: they may end it early.
func earlyLoss(r *run, f *findings) {
	for _, c := range r.inOrder {
		l := r.locks[c.id]
		if l == nil || !l.exact {
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
