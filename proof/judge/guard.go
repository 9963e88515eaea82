package judge

import (
	"cmp"
	"maps"
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

// guard looks at what each process's Guard let pass: one function at a time, none whose fence is behind that of an earlier
// one, and, of those that it refused, none that is not behind.
func guard(r *run, f *findings) {
	passed := make(map[string][]history.Event)
	var refused []history.Event
	for _, e := range r.events {
		switch {
		case e.Kind != history.Guarded:
		case e.OK:
			passed[e.Resources[0]] = append(passed[e.Resources[0]], e)
		default:
			refused = append(refused, e)
		}
	}
	found := func(e history.Event, format string, args ...any) {
		f.violation(place{from: e.At, to: e.End, resource: e.Resources[0], clients: []string{e.Client}}, format, args...)
	}
	for _, res := range slices.Sorted(maps.Keys(passed)) {
		all := passed[res]
		slices.SortStableFunc(all, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
		for i, e := range all {
			f.facts++
			switch {
			case i == 0:
			case all[i-1].End > e.At:
				found(e, "%s was under way for %s from %s on, and for %s until %s", res, r.lockOf(e), at(e.At), r.lockOf(all[i-1]), at(all[i-1].End))
			case all[i-1].Fence > e.Fence:
				found(e, "%s was done with the fence %d of %s, after one with %d", res, e.Fence, r.lockOf(e), all[i-1].Fence)
			}
		}
	}
	for _, e := range refused {
		f.facts++
		if !slices.ContainsFunc(passed[e.Resources[0]], func(o history.Event) bool { return o.Fence > e.Fence && o.At <= e.End }) {
			found(e, "%s was refused with the fence %d, and nobody had come with a larger one", r.lockOf(e), e.Fence)
		}
	}
}
