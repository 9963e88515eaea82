package judge

import (
	"cmp"
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

// makeTurns finds the locks with the same keys on the nodes: one was passed on to the next. The nodes were asked for all of
// them by the attempt of the first.
func (r *run) makeTurns() {
	of := make(map[string][]*lock)
	for _, l := range r.got {
		if l.holder != "" {
			of[l.holder] = append(of[l.holder], l)
		}
	}
	for _, all := range of {
		slices.SortStableFunc(all, func(a, b *lock) int { return cmp.Compare(a.got, b.got) })
		for i, l := range all[1:] {
			l.from, all[i].to = all[i], l
			r.passedOn++
			l.began, l.asked = all[0].began, all[0].asked
		}
	}
}

// takesPart reports whether a call takes part in turns: one that stands in line, and has the option.
func (c *call) takesPart() bool {
	return c.begin.Turn > 0 && c.begin.Op == history.OpLock && !c.begin.Polls && c.begin.MinHold == 0
}

// isOver is when the lock's release began; the end of the run if it did not.
func (l *lock) isOver(r *run) int64 {
	if len(l.unlocks) == 0 {
		return r.end
	}
	return l.unlocks[0].begin.At
}

// wentOn reports whether the nodes' keys were not this lock's to delete: it was passed on. A process that dies may not have
// told of that.
func (l *lock) wentOn(r *run) bool {
	return l.to != nil || l.passed != nil || l.acquired.takesPart() && l.isOver(r) > r.lived(l.client)-soon
}

// inherits reports whether an extension was under way when the lock was passed on. Its end moves with that, and no call says so.
func (l *lock) inherits() bool {
	for o := l; o.from != nil; o = o.from {
		if slices.ContainsFunc(o.from.extends, func(c *call) bool {
			return c.end == nil || len(o.from.unlocks) > 0 && c.end.At >= o.from.unlocks[0].begin.At
		}) {
			return true
		}
	}
	return false
}

// passedWith is how much of the validity that its caller has asked for a lock has at least that is passed on.
const passedWith = 0.9

// turns looks at each lock that was passed on: the release before it has begun by then, and that is what counts.
func turns(r *run, f *findings) {
	for _, l := range r.got {
		for _, e := range l.releases {
			if !l.acquired.takesPart() {
				break
			}
			if f.facts++; e.ok() {
				f.violation(place{from: e.begin.At, to: e.end.At, resource: l.resources[0], clients: []string{l.client, e.client}},
					"%s returned nil for %s, which has a token of its own, and no key has that", e, l)
			}
		}
		if l.from != nil {
			f.facts++
			r.passes(f, l)
		}
	}
	inARow(r, f)
}

// passes looks at one of them.
func (r *run) passes(f *findings, l *lock) {
	from, first := l.from, l.from
	for first.from != nil {
		first = first.from
	}
	when := from.isOver(r)
	wrong := func(format string, args ...any) {
		p := place{from: min(when, l.got), to: max(when, l.got), resource: l.resources[0], clients: []string{from.client, l.client}}
		f.violation(p, "%s was passed on to %s: "+format, append([]any{from, l}, args...)...)
	}
	c, end := l.acquired, first.got+first.acquired.begin.Turn
	switch {
	case when > l.got:
		wrong("its release had not begun at %s", at(l.got))
	case when > end:
		wrong("its release began at %s, and its turn was over at %s", at(when), at(end))
	case from.exact && when > from.until+r.header.OverlapSlack:
		wrong("its release began at %s, and it had ended at %s", at(when), at(from.until))
	case from.saidLost(when):
		wrong("it had been found lost before %s", at(when))
	case l.fence > 0 && l.fence <= from.fence:
		wrong("its fence was %d, and then %d", from.fence, l.fence)
	case l.client != from.client || !slices.Equal(l.resources, from.resources):
		wrong("that is another process, or has locked other resources")
	case !c.takesPart():
		wrong("that takes no part in turns")
	}
}

// saidLost reports whether the holder had been told by then that the lock was lost.
func (l *lock) saidLost(by int64) bool {
	return l.gone() && l.lost.At < by || slices.ContainsFunc(l.extends, func(c *call) bool { return c.lost() && c.end.At < by })
}

// inARow looks at turns that end while another process waits in line since before they began: mostly that one comes then, and
// not the same process again.
func inARow(r *run, f *findings) {
	known, again := 0, 0
	var last *lock
	for _, res := range r.resources {
		var first, before *lock // Of the latest turn, or of a lock without.
		for _, l := range r.byResource[res] {
			if before != nil && l.from == nil && r.follows(res, first, before, l) {
				if known++; l.client == before.client {
					again, last = again+1, l
				}
			}
			if before = l; l.from == nil {
				first = l
			}
		}
	}
	if known >= enough {
		if f.facts++; again > known/3 {
			f.violation(place{from: last.asked, to: last.got, resource: last.resources[0], clients: []string{last.client}},
				"of %d turns that ended while another process had waited since before they began, %d were followed by one of the same process", known, again)
		}
	}
}

// follows reports whether a lock was got by a call that stood in line when a turn was over, from first to last, and another
// process stood there all the time.
func (r *run) follows(res string, first, last, next *lock) bool {
	end, c := last.isOver(r), next.acquired
	return last.acquired.takesPart() && len(last.resources)+len(next.resources) == 2 && end < next.got && c.wait > 0 && c.begin.At < end &&
		r.waits(res, first.asked, next.got, func(w *call) bool {
			return w.client != last.client && (w == c || w.end.At > next.got+inLineFor)
		}) != nil
}
