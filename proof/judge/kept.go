package judge

import (
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

// keptGoesOn looks at locks that are kept alive: as long as their holder reaches a quorum of nodes, they go on. Each ttl in
// which it did counts. Nodes that are well for a while have their keys, also if they had lost them.
func keptGoesOn(r *run, f *findings) {
	repaired(r, f)
	for _, l := range r.got {
		ttl := l.acquired.begin.TTL
		if !l.kept || ttl == 0 || len(l.releases) > 0 {
			continue
		}
		for from := l.keptFrom; from+ttl <= l.over; from += ttl {
			if r.healthy(l.client, from-ttl, from+ttl) {
				f.facts++
			}
		}
		if l.gone() && l.keptFrom < l.until-ttl/2 && r.ran(l.client, l.lost.At-ttl, l.lost.At) &&
			!r.mayLose(l.client, l.lost.At-2*ttl, l.lost.At) {
			f.facts++
			f.violation(l.place(l.got, l.lost.At),
				"%s was kept alive, its client reached a quorum of healthy nodes, and it was lost at %s", l, at(l.lost.At))
		}
	}
}

// mayLose reports whether a kept lock may be lost then: its client did not reach a quorum, servers did not run, or one node
// was sick while another one had a key that somebody left who was disturbed. That one votes, and does not have the lock's
// key.
func (r *run) mayLose(client string, from, to int64) bool {
	return !r.healthy(client, from, to) || len(r.sick(client, from, to)) > 0 && r.disturbed(from, to)
}

// misses is how many extensions in a row may find no key of a kept lock on a node that is well, and that nobody else wants.
// What is left of an earlier attempt may have been in the way of one extension, and of the next.
const misses = 2

// repaired looks at what the nodes had of a kept lock when it had been extended, as again and again before.
func repaired(r *run, f *findings) {
	for _, l := range r.got {
		keys := r.keysOf(l)
		if !l.kept || keys == nil {
			continue
		}
		missed := make(map[int]int) // By node: extensions in a row.
		for _, c := range l.extends {
			t := c.returned(r)
			if from := t - c.begin.TTL; c.ok() && c.begin.TTL > 0 && !l.endedBy(t) && l.keptFrom <= from && r.ran(l.client, from, t) {
				r.missing(f, l, keys, c, missed)
			}
		}
	}
}

// missing counts on which nodes the keys are not.
func (r *run) missing(f *findings, l *lock, keys []string, c *call, missed map[int]int) {
	t := c.end.At
	from := t - c.begin.TTL
	sick := r.sick(l.client, from, t)
	wanted := r.wanted(l, c.begin.At, t)
	for n := range r.header.Nodes {
		is := yes
		for _, key := range keys {
			is = min(is, r.had(l.holder, site{n, key}, l.began, l.asked, t))
			wanted = wanted || r.others(l, site{n, key}, t)
		}
		if sick == nil || sick[n] || !r.has(l.client, n) || is != no || wanted {
			missed[n] = 0
			continue
		}
		f.facts++
		if missed[n]++; missed[n] > misses {
			f.violation(l.place(from, t),
				"%s (%s) was kept alive, and node %d, which had been well since %s, did not have all of its keys, as at each extension before",
				l, l.holder, n, at(from))
		}
	}
}

// others reports whether somebody else may have had the key then.
func (r *run) others(l *lock, s site, t int64) bool {
	for _, e := range r.after(s, l.asked) {
		if e.From <= t && e.Holder != "" && e.Holder != l.holder && r.had(e.Holder, s, l.asked, l.asked, t) != no {
			return true
		}
	}
	return false
}

// wanted reports whether anybody asked for the resources of a lock meanwhile. What such a call gets on a node for a moment
// is in the way of an extension: with three processes that wait, of every other one.
func (r *run) wanted(l *lock, from, to int64) bool {
	return slices.ContainsFunc(r.inOrder, func(c *call) bool {
		asks := c.id != l.id && (c.begin.Op == history.OpLock || c.begin.Op == history.OpTryLock)
		return asks && c.begin.At < to && c.returned(r) > from && slices.ContainsFunc(c.begin.Resources, func(res string) bool {
			return slices.Contains(l.resources, res)
		})
	})
}

// lossSignal looks at every lock that was kept alive. By Until, its holder has to have unlocked it, or to have been told
// that it is over. The slack is for a machine that is busy; time in which the process stood still does not count.
func lossSignal(r *run, f *findings) {
	for _, l := range r.got {
		if !l.kept {
			continue
		}
		ended, known := l.heldTo(r)
		due := l.signalDue(r)
		switch {
		case known && !l.exact:
			continue // It may have been extended without a word.
		case len(l.unlocks) > 0 && l.unlocks[0].ok() && ended == l.unlocks[0].begin.At:
			continue // It was held then, and no signal was due. The release's outcome is another rule's.
		case !known && (r.process(l.client).killed || !l.told || ended <= due):
			continue // Who was killed may have extended it without a word.
		}
		f.facts++
		if ended > due {
			p := place{from: l.until, to: ended, resource: l.resources[0], clients: []string{l.client}, since: l.acquired.begin.At}
			f.violation(p, "the context of %s had not ended before %s, and the lock at %s", l, at(ended), at(l.until))
		}
	}
}

// heldTo is when a hold has ended, by the loss signal or Unlock. If neither is known, it went on as long as its process lived.
func (l *lock) heldTo(r *run) (end int64, known bool) {
	end = r.lived(l.client)
	if l.lost != nil {
		end, known = l.lost.At, true
	}
	if len(l.unlocks) > 0 {
		end, known = min(end, l.unlocks[0].begin.At), true
	}
	return end, known
}

// signalDue is by when the loss signal has to come: at the end, unless the lock is kept from a later moment on; and as soon as
// an extension has shown the loss.
func (l *lock) signalDue(r *run) int64 {
	end := l.until
	for _, c := range l.extends {
		if c.lost() {
			end = min(end, c.end.At)
		}
	}
	return r.excused(l.client, max(end, l.keptFrom), r.slack(l.client, end))
}

// holdLimits looks at locks that are kept alive with a max hold or a stop time. By then, the context of the hold has to
// have ended, or the lock to be unlocked. Max hold counts from the start of the attempt, which nobody else knows.
func holdLimits(r *run, f *findings) {
	for _, l := range r.got {
		c := l.acquired
		if !l.kept || c.begin.MaxHold == 0 && (c.begin.StopTime == 0 || !l.exact) {
			continue
		}
		limit := l.until - c.begin.StopTime
		if c.begin.MaxHold > 0 {
			limit = min(limit, l.got+c.begin.MaxHold)
		}
		due := r.excused(l.client, max(limit, l.keptFrom), r.slack(l.client, limit))
		ended, known := l.heldTo(r)
		if !known && ended <= due {
			continue
		}
		f.facts++
		if ended > due {
			p := place{from: limit, to: ended, resource: l.resources[0], clients: []string{l.client}, since: c.begin.At}
			f.violation(p, "the hold of %s had to end by %s (max hold %s, stop time %s before %s), and had not at %s", l, at(limit),
				span(0, c.begin.MaxHold), span(0, c.begin.StopTime), at(l.until), at(ended))
		}
	}
}
