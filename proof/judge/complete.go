package judge

import "github.com/seed6c881748/redlock/proof/history"

// complete sees that the history can be relied on: a rule finds nothing in what was not written. What a client or the
// conductor could not write ends the run with an error.
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
}
