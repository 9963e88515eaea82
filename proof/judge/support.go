package judge

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// rounding is what a time in whole milliseconds may be short of.
const rounding = int64(time.Millisecond)

// support looks at what the nodes had of each lock while its holder took it to be held: a quorum has its keys all the time,
// and has them for as long as was said, and for the drift more. So it sees a lock that would exclude nobody even if nobody
// comes. What was not seen of a node, or what it has lost, counts as good.
func support(r *run, f *findings) {
	for _, l := range r.got {
		keys := r.keysOf(l)
		if keys == nil {
			continue
		}
		r.supported(f, l, keys)
		for _, c := range append([]*call{l.acquired}, l.extends...) {
			if c.ok() && c.end.Until > 0 && (c == l.acquired || c.begin.TTL > 0) {
				r.lasts(f, l, keys, c)
			}
		}
	}
}

// supported looks when the lock was got, whenever a node did not have it any more, and at the end. With min hold, nodes keep
// it until that is over.
func (r *run) supported(f *findings, l *lock, keys []string) {
	over, least := l.over, int64(0)
	if l.acquired.begin.MinHold > 0 && l.acquired.begin.Permits == 0 && len(l.releases) == 0 { // Release by token ends it.
		least = r.used(l) + r.leastHold(l)
	}
	over = max(over, least)
	if over <= l.got {
		return
	}
	f.facts++
	moments := []int64{l.got, over - 1}
	for n := range r.header.Nodes {
		for _, key := range keys {
			for _, e := range r.after(site{n, key}, l.got) {
				if e.At >= over {
					break
				}
				if moments = append(moments, e.At); e.At < least && e.Holder == l.holder && e.Op == history.StepRelease {
					f.violation(l.place(l.acquired.begin.At, e.At),
						"%s (%s) has a min hold until %s, and node %d deleted it at %s", l, l.holder, at(least), n, at(e.At))
				}
			}
		}
	}
	slices.Sort(moments)
	for _, t := range moments {
		if good, _ := r.hold(l, keys, t); good < r.quorum(l.client) {
			f.violation(l.place(l.acquired.begin.At, t),
				"%s (%s) was held until %s, and at %s only %d nodes had it", l, l.holder, at(over), at(t), good)
			return
		}
	}
}

// lasts looks for how long the nodes keep the keys, as was known when a call returned: until each of a quorum has them, and
// for as much more as clocks may drift. An attempt began before any node did something for it, so that holds of the node
// that did so first, too. It is not told what a hold asks for, but that follows from its end.
func (r *run) lasts(f *findings, l *lock, keys []string, c *call) {
	f.facts++
	least := c.end.Until + r.header.DriftLeast
	drift := cmp.Or(c.begin.Drift, r.header.Drift)
	least += int64(float64(max(0, least-c.end.At)) * drift / (1 - drift))
	good, first, limit := 0, int64(math.MaxInt64), c.end.At
	if c != l.acquired { // What has ended cannot be extended.
		limit = min(limit, l.untilBy(c.begin.At))
	}
	for n := range r.header.Nodes {
		if !r.has(l.client, n) {
			continue
		}
		until := int64(math.MaxInt64)
		for _, key := range keys {
			last := int64(0)
			for _, e := range r.after(site{n, key}, l.began) {
				if e.Holder == l.holder && e.From <= limit && e.TTL > 0 {
					slow := int64(float64(max(0, c.begin.At-e.At)) * r.header.Drift) // Its clock may have been, up to the call.
					if last = max(last, e.At+e.TTL+slow); e.Op == history.StepGrant || e.Op == history.StepAsked {
						first = min(first, e.At+e.TTL)
					}
				}
			}
			until = min(until, last)
		}
		if until >= least || r.lostData(n, l.asked, c.end.At) || r.unseen(n, l.asked, c.end.At) {
			good++
		}
	}
	p := l.place(l.acquired.begin.At, c.end.At)
	if good < r.quorum(l.client) {
		f.violation(p, "%s said that %s (%s) has until %s, and only %d nodes keep it until %s, which is so much more as clocks may drift",
			c, l, l.holder, at(c.end.Until), good, at(least))
	} else if c == l.acquired && l.from == nil && first < least && r.header.DriftLeast > 0 { // Others have one token for all attempts of a call.
		f.violation(p, "%s said that %s (%s) has until %s, and a node had granted it so early that its ttl less the drift is over %s before",
			c, l, l.holder, at(c.end.Until), span(first, least))
	}
}

// endedBy reports whether somebody had begun to release the lock.
func (l *lock) endedBy(t int64) bool {
	return slices.ContainsFunc(slices.Concat(l.unlocks, l.releases), func(c *call) bool { return c.begin.At <= t }) || l.gone() && l.lost.At <= t
}

// lostData reports whether a node has lost keys in that time, or with -1 any node.
func (r *run) lostData(node int, from, to int64) bool {
	return slices.ContainsFunc(r.faults, func(x fault) bool {
		return (x.node == node || node < 0) && x.Forgets && x.from <= to && x.to >= from
	})
}

// quarantine looks at nodes that have restarted, and may have forgotten a lock: they give no key to anybody for as long as
// that lock may be relied on. One that an operator has admitted does so at once.
func quarantine(r *run, f *findings) {
	if r.header.MaxTTL == 0 {
		return
	}
	asked := make(map[string]bool) // The resources that are locked with quarantine.
	for _, c := range r.inOrder {
		for _, res := range c.begin.Resources {
			asked[res] = !r.bare(res)
		}
	}
	for _, x := range r.faults {
		if x.node < 0 || x.name == "rolling" || !x.Abstains || !x.ended && x.name != history.Empty {
			continue
		}
		over := x.from + r.header.MaxTTL - r.header.MaxTTL/50 // By the fastest clock.
		for at, steps := range r.seen {
			if at.node == x.node && asked[at.key] {
				abstains(r, f, x, at, steps, over)
			}
		}
	}
}

// abstains looks at the steps of one key: nobody gets it between the restart and the end of the quarantine.
func abstains(r *run, f *findings, x fault, key site, steps []*history.Event, over int64) {
	before := make(map[string]bool) // Who may have had it.
	for _, e := range steps {
		switch {
		case e.From <= x.to:
			before[e.Holder] = x.name != history.Empty && e.Op != history.StepAsked
		case e.At >= over:
			return
		case e.Op == history.StepExpire, e.Op == history.StepRelease, e.Op == history.StepAsked, e.Holder == "":
		default:
			f.facts++
			if l := r.byHolder[e.Holder]; e.Op == history.StepGrant || !before[e.Holder] && l != nil && (l.asked > x.to || x.name == history.Empty) {
				f.violation(place{from: x.from, to: e.At, resource: key.key}, "node %d had restarted at %s, and gave %s to %s at %s (%s): it must abstain for %s",
					x.node, at(x.to), key.key, e.Holder, at(e.At), e.Op, span(0, r.header.MaxTTL))
				return
			}
		}
	}
}

// bare reports whether a resource is locked without quarantine.
func (r *run) bare(res string) bool { return slices.Contains(r.header.Bare, res) }
