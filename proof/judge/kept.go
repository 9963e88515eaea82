package judge

import (
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

// keptGoesOn looks at locks that are kept alive: as long as their holder reaches a quorum of nodes, they go on. Each ttl in
// which it did counts. Nodes that are well for a while have their keys, also if they had lost them.
func keptGoesOn(r *run, f *findings) {
	repaired(r, f)
	for _, res := range r.resources {
		for _, l := range r.byResource[res] {
			ttl := l.acquired.begin.TTL
			if !l.kept || l.resources[0] != res || ttl == 0 || len(l.releases) > 0 {
				continue
			}
			for from := l.keptFrom; from+ttl <= l.over; from += ttl {
				if r.healthy(l.client, from-ttl, from+ttl) {
					f.facts++
				}
			}
			if l.gone() && l.keptFrom < l.until-ttl/2 && r.ran(l.client, l.lost.At-ttl, l.lost.At) && !r.mayLose(l.client, l.lost.At-2*ttl, l.lost.At) {
				f.facts++
				f.violation(place{from: l.got, to: l.lost.At, resource: res, clients: []string{l.client}},
					"%s was kept alive, its client reached a quorum of healthy nodes, and it was lost at %s", l, at(l.lost.At))
			}
		}
	}
}

// mayLose reports whether a kept lock may be lost then: its client did not reach a quorum, servers did not run, or one node
// was sick while another one had a key that somebody left who was disturbed. That one votes, and does not have the lock's
// key.
func (r *run) mayLose(client string, from, to int64) bool {
	return !r.healthy(client, from, to) || len(r.sick(client, from, to)) > 0 && r.disturbed(from, to)
}

// misses is how many looks in a row may find no key of a kept lock on a node that is well, and that nobody else wants. What
// is left of an earlier attempt may have been in the way of one extension, and of the next.
const misses = 2

// repaired looks at what the nodes had of a lock that had just been extended, as again and again before.
func repaired(r *run, f *findings) {
	type share struct {
		of   *lock
		node int
	}
	missed := make(map[share]int) // Looks in a row.
	for _, e := range r.looks {
		l, c := r.looked(e)
		if l == nil || e.Op != history.OpExtend || !l.kept || c.begin.TTL == 0 || l.endedBy(e.End) {
			continue
		}
		from := e.At - c.begin.TTL
		if l.keptFrom > from || !r.ran(l.client, from, e.At) {
			continue
		}
		sick := r.sick(l.client, from, e.End)
		for _, s := range e.Seen {
			this := share{l, s.Node}
			if sick == nil || sick[s.Node] || s.Others > 0 {
				missed[this] = 0
				continue
			}
			f.facts++
			if s.Keys >= len(l.resources) || r.wanted(l, c.begin.At, e.End) {
				missed[this] = 0
				continue
			}
			if missed[this]++; missed[this] > misses {
				f.violation(place{from: from, to: e.End, resource: l.resources[0], clients: []string{l.client}},
					"%s was kept alive, and node %d, which had been well since %s, had %d of its keys, as at each look before",
					l, s.Node, at(from), s.Keys)
			}
		}
	}
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
