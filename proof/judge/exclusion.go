package judge

import "slices"

// overlap compares each lock on a resource with those that were got before it and are not over. A holder's time begins
// when its call has returned, and ends with the first of Until, its release and its loss signal. A process that goes on
// after that is nobody's fault but its own, and what a fence is for.
func overlap(r *run, f *findings) {
	for _, res := range r.resources {
		var held []*lock
		for i, l := range r.byResource[res] {
			if i > 0 {
				f.facts++
			}
			held = slices.DeleteFunc(held, func(other *lock) bool { return other.over <= l.got })
			if l.over <= l.got {
				continue // It was over before its holder knew of it.
			}
			for _, other := range held {
				if r.guest(l.client) && r.guest(other.client) {
					continue // That is between their libraries.
				}
				if r.bare(res) && r.lostData(-1, other.asked, l.got) {
					continue // What quarantine is for.
				}
				both := min(l.over, other.over)
				p := place{from: l.got, to: both, resource: res, clients: []string{other.client, l.client}}
				p.since = other.acquired.begin.At
				f.violation(p, "%s held %s from %s to %s, and %s from %s to %s: for %s both did", other, res, at(other.got),
					at(other.over), l, at(l.got), at(l.over), span(l.got, both))
			}
			held = append(held, l)
		}
	}
}
