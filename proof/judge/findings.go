package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// findings is what one rule found.
type findings struct {
	run        *run
	facts      int
	count      int
	violations []Violation
}

const (
	maxViolations = 50                          // of a rule: the first ones tell enough
	maxAround     = 40                          // events in the piece of history of a violation
	margin        = int64(5 * time.Millisecond) // before and after it
)

// A place is where in a history a violation is.
type place struct {
	from, to int64
	resource string
	clients  []string
	since    int64 // From when on the events are shown, 0: from 'from'.
}

func (f *findings) violation(p place, format string, args ...any) {
	f.count++
	if len(f.violations) >= maxViolations {
		return
	}
	p.clients = slices.Compact(slices.Sorted(slices.Values(p.clients)))
	f.violations = append(f.violations, Violation{
		Sentence: fmt.Sprintf(format, args...), From: p.from, To: p.to, Resource: p.resource, Clients: p.clients,
		Around: f.run.around(p),
	})
}

// judge notes what came out.
func (r *Result) judge(f *findings) {
	r.Facts, r.Violations = f.facts, f.count
	switch {
	case f.count > 0:
		r.State = Broken
	case f.facts == 0:
		r.State = Nothing
	default:
		r.State = Held
	}
}

// around is the piece of history at a place: what its clients did to the resource, and the faults. Of a long piece it
// has both ends.
func (r *run) around(p place) []history.Event {
	var piece []history.Event
	from := p.from
	if p.since > 0 {
		from = min(from, p.since)
	}
	for _, e := range r.events {
		if e.At < from-margin || e.At > p.to+margin || e.Kind == history.Votes || e.Kind == history.Run {
			continue
		}
		concerns := p.resource == "" || slices.Contains(r.resourcesOf(e), p.resource)
		if e.Client == "" || e.Fault != "" || concerns && (len(p.clients) == 0 || slices.Contains(p.clients, e.Client)) {
			piece = append(piece, e)
		}
	}
	slices.SortStableFunc(piece, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	if half := maxAround / 2; len(piece) > maxAround {
		piece = slices.Concat(piece[:half], piece[len(piece)-half:])
	}
	return piece
}

// resourcesOf are the resources that an event is about.
func (r *run) resourcesOf(e history.Event) []string {
	if len(e.Resources) > 0 {
		return e.Resources
	}
	if l := r.lockOf(e); l != nil {
		return l.resources
	}
	if c := r.calls[id{e.Client, e.Call}]; c != nil && e.Call > 0 {
		return c.begin.Resources
	}
	return nil
}
