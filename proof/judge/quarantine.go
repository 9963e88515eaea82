package judge

import (
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

// quarantine looks at nodes that have restarted, and may have forgotten a lock: they make no key for as long as that lock
// may be relied on. Attempts that began since then say how such a node voted, and looks at nodes what keys it had.
// One that an operator has admitted votes at once.
func quarantine(r *run, f *findings) {
	if r.header.MaxTTL == 0 {
		return
	}
	for _, x := range r.faults {
		if x.node < 0 || x.name == "rolling" || !slices.Contains(abstaining, x.name) || !x.ended && x.name != history.Empty {
			continue
		}
		over := x.from + r.header.MaxTTL - r.header.MaxTTL/50 // By the fastest clock.
		for _, e := range r.votes {
			if c := r.calls[id{e.Client, e.Call}]; c != nil && c.begin.At > x.to && e.At < over && !r.bare(c.begin.Resources[0]) {
				votedBy(r, f, x, c, e)
			}
		}
		for _, e := range r.looks {
			if e.At > x.to && e.End < over {
				keysOn(r, f, x, e)
			}
		}
	}
}

// votedBy looks at what the node said to an attempt.
func votedBy(r *run, f *findings, x fault, c *call, e history.Event) {
	for _, v := range e.Votes {
		if v.Node != x.node || v.At <= x.to {
			continue
		}
		f.facts++
		if v.Says == "yes" {
			f.violation(place{from: x.from, to: e.At, resource: c.begin.Resources[0], clients: []string{c.client}},
				"node %d said yes to %s at %s, and it had restarted at %s: it must abstain for %s", x.node, c, at(v.At), at(x.to),
				span(0, r.header.MaxTTL))
		}
	}
}

// keysOn looks at what the node had of a lock: of one that was asked for since, or that the node has lost, it must have
// nothing.
func keysOn(r *run, f *findings, x fault, e history.Event) {
	l, c := r.looked(e)
	if l == nil || r.bare(l.resources[0]) || l.asked <= x.to && x.name != history.Empty {
		return
	}
	for _, s := range e.Seen {
		if s.Node != x.node {
			continue
		}
		f.facts++
		if s.Keys > 0 {
			f.violation(place{from: x.from, to: e.End, resource: l.resources[0], clients: []string{l.client}},
				"node %d had restarted at %s, and after %s it has a key of %s: it must abstain for %s", x.node, at(x.to), c, l,
				span(0, r.header.MaxTTL))
		}
	}
}

// bare reports whether a resource is locked without quarantine.
func (r *run) bare(res string) bool { return slices.Contains(r.header.Bare, res) }
