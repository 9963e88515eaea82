package judge

import (
	"maps"
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

// complete sees that the history can be relied on: a rule finds nothing in what was not written.
func complete(r *run, f *findings) {
	missing := func(p place, format string, args ...any) { f.violation(p, format, args...) }
	f.facts++
	if !r.headed {
		missing(place{from: r.end, to: r.end}, "the history has no first line, which says what was run")
	}
	if !r.closed {
		missing(place{from: r.end, to: r.end}, "the history was cut short: it has no last line")
	}
	for _, o := range r.odd {
		missing(place{from: o.event.At, to: o.event.At, clients: []string{o.event.Client}}, "%s: %s", line(o.event), o.what)
	}
	for _, x := range r.faults {
		if x.name == history.Freeze && !x.ended { // It would excuse whatever comes after it.
			missing(place{from: x.from, to: x.from}, "%s: this has no end", line(*x.begun))
		}
	}
	for _, c := range r.inOrder {
		f.facts++
		if c.end == nil && !r.killed[c.client] {
			missing(place{from: c.begin.At, to: c.begin.At, clients: []string{c.client}}, "%s has not returned", c)
		}
	}
	for _, res := range slices.Sorted(maps.Keys(r.operations)) {
		for _, e := range r.operations[res] {
			f.facts++
			if e.End == 0 {
				missing(place{from: e.At, to: e.At, resource: res, clients: []string{e.Client}}, "a %s by %s was not answered", e.Kind, e.Client)
			}
		}
		if _, ok := r.final[res]; !ok {
			missing(place{from: r.end, to: r.end, resource: res}, "nobody looked at the register of %s in the end", res)
		}
	}
	callsOfClients(r, f)
	keysOfNodes(r, f)
}

// callsOfClients sees that no call of a client that ended by itself is missing: they are counted. One that was killed
// may have been about to write one.
func callsOfClients(r *run, f *findings) {
	begun, last := make(map[string]int), make(map[string]int)
	for _, c := range r.calls {
		begun[c.client]++
		last[c.client] = max(last[c.client], c.call)
	}
	for _, client := range slices.Sorted(maps.Keys(begun)) {
		if _, ended := r.down[client]; !ended || r.killed[client] {
			continue
		}
		f.facts++
		if begun[client] < last[client] {
			f.violation(place{from: r.end, to: r.end, clients: []string{client}},
				"%s made %d calls, and %d of them are not in the history", client, last[client], last[client]-begun[client])
		}
	}
}

// keysOfNodes sees that every node has said what it had left.
func keysOfNodes(r *run, f *findings) {
	told := make(map[int]bool)
	for _, e := range r.events {
		if e.Kind == history.Keys && e.Node != nil {
			told[*e.Node] = true
		}
	}
	for n := range r.header.Nodes {
		f.facts++
		if !told[n] {
			f.violation(place{from: r.end, to: r.end}, "node %d has not said what keys it had left", n)
		}
	}
}
