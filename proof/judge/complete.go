package judge

import "github.com/seed6c881748/redlock/proof/history"

// complete sees that the history can be relied on: a rule finds nothing in what was not written. What a client or the
// conductor could not write ends the run with an error.
func complete(r *run, f *findings) {
	f.facts++
	if !r.headed {
		f.violation(place{from: r.end, to: r.end}, "the history has no first line, which says what was run")
	}
	if !r.closed {
		f.violation(place{from: r.end, to: r.end}, "the history was cut short: it has no last line")
	}
	for _, o := range r.odd {
		f.violation(place{from: o.event.At, to: o.event.At, clients: []string{o.event.Client}}, "%s: %s", line(o.event), o.what)
	}
	for _, x := range r.faults {
		if x.name == history.Freeze && !x.ended { // It would excuse whatever comes after it.
			f.violation(place{from: x.from, to: x.from}, "%s: this has no end", line(*x.begun))
		}
	}
	for _, c := range r.inOrder {
		f.facts++
		if c.end == nil && !r.process(c.client).killed {
			f.violation(place{from: c.begin.At, to: c.begin.At, clients: []string{c.client}}, "%s has not returned", c)
		}
	}
}

// An oddity is an event that does not fit the others.
type oddity struct {
	event history.Event
	what  string
}

func (r *run) strange(e *history.Event, what string) {
	r.odd = append(r.odd, oddity{*e, what})
}

// readOrder notes events that cannot have happened when they say. Rules compare times, so they would show nothing.
func (r *run) readOrder() {
	for i := range r.events {
		e := &r.events[i]
		p := r.process(e.Client)
		switch {
		case e.End > 0 && e.End < e.At:
			r.strange(e, "it was answered before it was asked for")
		case p.ended && e.At > p.end && e.Fault == "" && e.Kind != history.Up:
			r.strange(e, "its process had ended")
		}
	}
}

// readReturn notes how a call has ended.
func (r *run) readReturn(c *call, e *history.Event) {
	if c.end != nil {
		r.strange(e, "this call had returned before")
		return
	}
	if c.end = e; e.At < c.begin.At {
		r.strange(e, "this call had not begun yet")
	}
}

// otherSets looks at what clients were told of the nodes of others. All in a run have the same ones, or, while the set
// grows, those of one step beside it, whose quorums meet.
func otherSets(r *run, f *findings) {
	for _, e := range r.events {
		switch {
		case e.Kind == history.Up:
			f.facts++
		case e.Kind == history.Sets && !e.OK:
			f.violation(place{from: e.At, to: e.At, clients: []string{e.Client}}, "%s was told: %s", e.Client, e.Err)
		}
	}
}
