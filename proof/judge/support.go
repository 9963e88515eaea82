package judge

import (
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// rounding is what a node's PTTL may be short of.
const rounding = int64(time.Millisecond)

// support looks at what the nodes had of a lock that somebody had just got, or extended: a quorum has its keys until Until,
// and for the drift more. So it sees a lock that would exclude nobody even if nobody comes. What a node does not say, or has
// lost since, counts as good.
func support(r *run, f *findings) {
	for _, e := range r.looks {
		l, c := r.looked(e)
		if l == nil || e.Op == history.OpUnlock || c.end.Until <= e.End || c.begin.TTL == 0 || l.endedBy(e.End) {
			continue
		}
		f.facts++
		last := func(now int64) int64 { // From then on, clocks may go on to drift.
			return c.end.Until + int64(float64(c.end.Until-now)*r.header.Drift) + r.header.DriftLeast
		}
		good, asked := r.nodes(l.client)-len(e.Seen), l.asked
		if e.Op == history.OpExtend {
			asked = c.begin.At
		}
		for _, s := range e.Seen {
			if s.Keys == len(l.resources) && s.At+s.Left+rounding >= last(s.At) || r.lostData(s.Node, asked, s.At) {
				good++
			}
		}
		if good < r.quorum(l.client) {
			f.violation(place{from: l.acquired.begin.At, to: e.End, resource: l.resources[0], clients: []string{l.client}},
				"%s said that %s has until %s, and only %d nodes keep it until %s, which is so much more as clocks may drift: %s",
				c, l, at(c.end.Until), good, at(last(e.At)), seen(e.Seen))
		}
	}
}

// released looks at what the nodes had of a lock whose Unlock had just returned nil: a quorum has none of its keys.
func released(r *run, f *findings) {
	for _, e := range r.looks {
		l, c := r.looked(e)
		if l == nil || e.Op != history.OpUnlock || c.begin.Detail == history.ByDo || l.acquired.begin.MinHold > 0 {
			continue
		}
		f.facts++
		left := 0
		for _, s := range e.Seen {
			if s.Keys > 0 {
				left++
			}
		}
		if r.nodes(l.client)-left < r.quorum(l.client) {
			f.violation(place{from: c.begin.At, to: e.End, resource: l.resources[0], clients: []string{l.client}},
				"%s returned nil, and %d nodes still had %s: %s", c, left, l, seen(e.Seen))
		}
	}
}

// keysLeft looks at what each node had left in the end.
func keysLeft(r *run, f *findings) {
	for _, e := range r.events {
		if e.Kind != history.Keys || e.Node == nil {
			continue
		}
		f.facts++
		if len(e.Keys) > 0 {
			f.violation(place{from: e.At, to: e.At}, "node %d had %d keys left: %q %s", *e.Node, len(e.Keys), e.Keys, e.Detail)
		}
	}
}

// looked is the lock that was looked at, and the call that had just succeeded.
func (r *run) looked(e history.Event) (*lock, *call) {
	l, c := r.locks[id{e.Owner, e.Lock}], r.calls[id{e.Owner, e.Call}]
	if l == nil || c == nil || !c.ok() {
		return nil, nil
	}
	return l, c
}

// endedBy reports whether somebody had begun to release the lock.
func (l *lock) endedBy(t int64) bool {
	return slices.ContainsFunc(slices.Concat(l.unlocks, l.releases), func(c *call) bool { return c.begin.At <= t }) || l.gone() && l.lost.At <= t
}

// lostData reports whether a node has lost keys in that time, or with -1 any node.
func (r *run) lostData(node int, from, to int64) bool {
	return slices.ContainsFunc(r.faults, func(x fault) bool {
		return (x.node == node || node < 0) && (x.name == history.Empty || x.name == history.Stale) && x.from <= to && x.to >= from
	})
}
