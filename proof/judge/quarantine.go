package judge

import (
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

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
		if x.node < 0 || x.name == "rolling" || !slices.Contains(abstaining, x.name) || !x.ended && x.name != history.Empty {
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
