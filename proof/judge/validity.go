package judge

import (
	"cmp"
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

// validity looks at each Until that a holder was told, and at each section. An attempt and an extension count the ttl from
// their start, so less than a ttl is left when they have returned, or later. The library returns no lock after its Until,
// and a program that looks at its lock begins nothing then: the slack is for what is between the look and the first step.
// Nor is less left of it than the drift explains.
func validity(r *run, f *findings) {
	for _, e := range r.events {
		l, c := r.lockOf(e), r.calls[id{e.Client, e.Call}]
		if l == nil && c != nil {
			if l = c.lock; l == nil {
				l = r.lockOf(c.begin)
			}
		}
		if e.Kind == history.Return && c != nil && c.begin.Op == history.OpExtend {
			extended(r, f, l, c)
		}
		if e.Kind == history.Return && l != nil && l.id == (id{e.Client, e.Call}) {
			returned(r, f, l)
		}
		switch {
		case l == nil:
		case e.Kind == history.Enter:
			entered(r, f, l, e)
		case e.Until > 0 && l.acquired.begin.TTL > 0:
			f.facts++
			if end := l.latest(r, e.At) + r.header.DriftLeast; e.Until > end {
				p := l.place(l.acquired.begin.At, e.At)
				f.violation(p, "%s had until %s, as was said at %s: that is %s more than its ttl", l, at(e.Until), at(e.At), span(end, e.Until))
			}
		}
	}
}

// latest is when the lock may end at most, by the largest ttl that was asked for by then, also before it was passed on.
func (l *lock) latest(r *run, by int64) (end int64) {
	for ; l != nil; l = l.from {
		ttl := l.acquired.mostTTL(r)
		for _, c := range l.extends {
			if c.begin.At <= by {
				ttl = max(ttl, c.mostTTL(r))
			}
		}
		end = max(end, r.ends(l.acquired, by, ttl))
	}
	return end
}

// returned looks at the return of the call that got the lock. Without fences there may be a signal instead of an end.
func returned(r *run, f *findings, l *lock) {
	c, until := l.acquired, l.acquired.end.Until
	if until == 0 && !r.header.Fences {
		return
	}
	f.facts++
	p := l.place(c.begin.At, c.end.At)
	switch {
	case until <= c.begin.At: // Also where there is none.
		f.violation(p, "%s began at %s, and its lock had until %s", c, at(c.begin.At), at(until))
	case until < r.leastOf(l) && c.begin.Permits == 0: // The attempt may have been begun for another one who wants a permit.
		f.violation(p, "%s had a lock until %s, and its ttl less the drift goes to %s", c, at(until), at(r.least(c)))
	case c.end.At > r.excused(l.client, until, r.slack(l.client, until)):
		f.violation(p, "%s returned at %s, and its lock had ended at %s", c, at(c.end.At), at(until))
	}
}

// entered looks at the beginning of a section.
func entered(r *run, f *findings, l *lock, e history.Event) {
	if !l.exact {
		return
	}
	f.facts++
	until := l.untilBy(e.At)
	if due := r.excused(e.Client, until, r.slack(e.Client, until)); e.At > due {
		p := place{from: until, to: e.At, resource: l.resources[0], clients: []string{e.Client}, since: l.acquired.begin.At}
		f.violation(p, "a section under %s began at %s, and the lock had ended at %s", l, at(e.At), at(until))
	}
}

// extended looks at an extension. What has ended cannot be extended, and what is extended is not shortened, and lasts for its
// ttl. The extensions of a lock that is kept need not be told, so nobody knows its end.
func extended(r *run, f *findings, l *lock, c *call) {
	if l == nil || !c.ok() || l.acquired.end.Until == 0 || c.end.Until == 0 {
		return
	}
	p := l.place(l.acquired.begin.At, c.end.At)
	if slices.ContainsFunc(l.unlocks, func(u *call) bool { return u.end != nil && u.end.At < c.begin.At }) {
		f.violation(p, "%s succeeded, and %s had been released before the call", c, l)
	}
	if l.kept || l.inherits() {
		return
	}
	f.facts++
	until := l.acquired.end.Until
	for _, other := range l.extends {
		if other.ok() && other.begin.At < c.begin.At { // It may have returned long before that was written.
			until = max(until, other.end.Until)
		}
	}
	if c.begin.At > until+r.header.OverlapSlack {
		f.violation(p, "%s succeeded, and %s had ended at %s, before the call", c, l, at(until))
	}
	if old := l.untilBy(c.begin.At); c.end.Until < old {
		f.violation(p, "%s shortened %s, from %s to %s", c, l, at(old), at(c.end.Until))
	}
	if least := r.least(c); c.end.Until < least {
		f.violation(p, "%s succeeded, and %s has until %s: its ttl less the drift goes to %s", c, l, at(c.end.Until), at(least))
	}
}

// least is an end before which what a call has got cannot end: the library begins to count after the call does.
func (r *run) least(c *call) int64 {
	if r.header.DriftLeast == 0 {
		return 0 // Of a library whose drift is not known.
	}
	return r.ends(c, c.begin.At, c.begin.TTL) - rounding
}

// leastOf is that of a lock. One that is passed on has a part of what was asked for left then.
func (r *run) leastOf(l *lock) int64 {
	if l.from == nil {
		return r.least(l.acquired)
	}
	return min(l.from.isOver(r), l.got) + int64(passedWith*float64(r.ends(l.acquired, 0, l.acquired.begin.TTL))) - rounding
}

// ends is when a lock does whose attempt, or whose extension, began then.
func (r *run) ends(c *call, from, ttl int64) int64 {
	return from + ttl - int64(float64(ttl)*cmp.Or(c.begin.Drift, r.header.Drift)) - r.header.DriftLeast
}

// mostTTL is what a call may have made of its ttl: a min hold comes on top of the longest attempt.
func (c *call) mostTTL(r *run) int64 {
	return c.begin.TTL + int64(float64(c.begin.MinHold)/(1-cmp.Or(c.begin.Drift, r.header.Drift)))
}

// untilBy is the end of the lock as it was then. Of one that is kept it is the last end: not each extension need be told.
func (l *lock) untilBy(by int64) int64 {
	if l.kept {
		return l.until
	}
	until := l.acquired.end.Until
	for _, c := range l.extends {
		if c.ok() && c.end.At <= by {
			until = max(until, c.end.Until)
		}
	}
	return until
}

// bounds looks at every call that has a bound. Time in which the process stood still does not count.
func bounds(r *run, f *findings) {
	for _, c := range r.inOrder {
		var last history.Event // What nodes said to the last attempt of the call.
		for _, e := range r.votes[c.id] {
			if e.From >= last.From {
				last = e
			}
		}
		decided(r, f, c, last)
		if c.begin.Bound == 0 {
			continue
		}
		due := c.begin.Bound
		if c.end != nil && c.end.At <= due {
			f.facts++
			continue
		}
		due += r.slack(c.client, due)
		due = r.excused(c.client, c.begin.At, due-c.begin.At)
		p := place{from: c.begin.At, to: c.returned(r), clients: []string{c.client}}
		if len(c.begin.Resources) > 0 {
			p.resource = c.begin.Resources[0]
		}
		if c.end != nil {
			f.facts++
			if c.end.At > due {
				f.violation(p, "%s had to return by %s, and returned at %s", c, at(due), at(c.end.At))
			}
			continue
		}
		if ended := r.lived(c.client); ended > due {
			f.facts++
			f.violation(p, "%s had to return by %s, and had not at %s", c, at(due), at(ended))
		}
	}
}

// decided looks at a call that got a lock without a fence, which may take more: it waits for no more nodes than a quorum. A
// quorum that leaves no more of the ttl than the min hold is no lock, and the call goes on with another attempt; so it does when
// an attempt is given up, whose votes may still come.
func decided(r *run, f *findings, c *call, e history.Event) {
	l, need := c.lock, r.quorum(c.client)
	if l == nil || l.fence > 0 || c.begin.Permits > 0 || l.from != nil {
		return
	}
	var yes []int64
	for _, v := range e.Votes {
		if v.Says == "yes" && v.At > 0 {
			yes = append(yes, v.At)
		}
	}
	if slices.Sort(yes); len(yes) < need {
		return
	}
	by := yes[need-1]
	slack := r.slack(c.client, by)
	end := r.ends(c, max(e.From, c.begin.At), c.begin.TTL)
	if end-by <= c.begin.MinHold+slack || c.begin.MinHold == 0 && end < c.end.Until-2*rounding {
		return
	}
	f.facts++
	if due := r.excused(c.client, by, slack); c.end.At > due {
		f.violation(place{from: c.begin.At, to: c.end.At, resource: l.resources[0], clients: []string{c.client}},
			"%s had %d votes at %s, which is a quorum, and returned at %s", c, need, at(by), at(c.end.At))
	}
}
