package judge

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

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

// permits looks at the slots of each semaphore, which are locks for the other rules.
func permits(r *run, f *findings) {
	of := make(map[string][]*lock)
	for _, res := range r.resources {
		for _, l := range r.byResource[res] {
			if name, _, ok := strings.Cut(res, "#"); ok && l.acquired.begin.Permits > 0 {
				of[name] = append(of[name], l)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all := of[name]
		slices.SortStableFunc(all, func(a, b *lock) int { return cmp.Compare(a.got, b.got) })
		var held []*lock
		for _, l := range all {
			f.facts++
			if held = slices.DeleteFunc(held, func(o *lock) bool { return o.over <= l.got }); l.over > l.got {
				held = append(held, l)
			}
			if k := l.acquired.begin.Permits; len(held) > k {
				f.violation(among(held), "%s had %d permits at %s, and %d are held: the last one is %s", name, k, at(l.got), len(held), l)
			}
		}
		inPeriods(r, f, name, all)
	}
}

// inPeriods looks at each k + 1 permits that follow each other. One that another process has released does not count, nor
// one that was over when its holder knew of it.
func inPeriods(r *run, f *findings, name string, all []*lock) {
	all = slices.DeleteFunc(all, func(l *lock) bool { return l.acquired.begin.MinHold == 0 || len(l.releases) > 0 || l.over <= l.got })
	for i, l := range all {
		k := l.acquired.begin.Permits
		if i < k {
			continue
		}
		f.facts++
		from := l.got
		for _, o := range all[i-k : i] {
			from = min(from, r.used(o))
		}
		if period := r.leastHold(l); l.got-from < period {
			f.violation(among(all[i-k:i+1]), "%s has %d permits in %s, and %d were got from %s to %s", name, k,
				span(0, l.acquired.begin.MinHold), k+1, at(all[i-k].got), at(l.got))
		}
	}
}

// among is where these locks are, which are in the order in which they were got.
func among(locks []*lock) place {
	p := place{from: locks[0].got, to: locks[len(locks)-1].got}
	for _, l := range locks {
		p.clients = append(p.clients, l.client)
	}
	return p
}
