package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// waiters compares calls of Lock of one process. If one was in line when another came, which has got the lock, then the
// first one got it first, or had given up by then.
//
// That holds for calls that want one and the same resource, with the same options, as long as the nodes answer those in
// line: a call that has not heard of an answer to the others for too long asks for itself. So only such calls count
// before whose attempt the nodes had refused others in line again and again. Processes may overtake each other.
func waiters(r *run, f *findings) {
	for _, l := range r.linesOfWaiters() {
		inLine := slices.SortedStableFunc(slices.Values(l.calls), func(a, b *call) int { return cmp.Compare(a.wait, b.wait) })
		var last *call // of those in line, who left it last
		for _, c := range l.calls {
			for len(inLine) > 0 && inLine[0].wait < c.begin.At {
				if last == nil || r.left(inLine[0]) > r.left(last) {
					last = inLine[0]
				}
				inLine = inLine[1:]
			}
			if last == nil || !c.ok() || r.left(last) < c.begin.At || !r.mustWait(l, c, last) {
				continue
			}
			f.facts++
			if c.end.At < r.left(last) {
				p := place{from: last.begin.At, to: last.end.At, resource: l.resource, clients: []string{c.client}}
				f.violation(p, "%s waited from %s to %s; %s came at %s, and got the lock at %s", last, at(last.wait),
					at(last.end.At), c, at(c.begin.At), at(c.end.At))
			}
		}
	}
}

// left is until when a call was in line for sure. One that gives up is not, for a while before it returns.
func (r *run) left(c *call) int64 {
	if c.ok() {
		return c.end.At
	}
	return c.end.At - 2*r.nodeTimeout()
}

// A waitingLine is what is known of the calls of a process that waited for one resource.
type waitingLine struct {
	client, resource string
	calls            []*call // that have waited for nothing else, and returned; by when they began
	mixed            []*call // that wanted others, too
	refused          []int64 // when a quorum of nodes had refused one of them
}

// linesOfWaiters sorts the calls of Lock by process and resource.
func (r *run) linesOfWaiters() map[[2]string]*waitingLine {
	lines := make(map[[2]string]*waitingLine)
	of := func(c *call, res string) *waitingLine {
		key := [2]string{c.client, res}
		if lines[key] == nil {
			lines[key] = &waitingLine{client: c.client, resource: res}
		}
		return lines[key]
	}
	for _, c := range r.inOrder {
		if c.begin.Op != history.OpLock {
			continue
		}
		for _, res := range c.begin.Resources {
			if l := of(c, res); len(c.begin.Resources) > 1 {
				l.mixed = append(l.mixed, c)
			} else if c.end != nil && c.wait > 0 {
				l.calls = append(l.calls, c)
			}
		}
	}
	for _, e := range r.events {
		if c := r.calls[id{e.Client, e.Call}]; e.Kind == history.Votes && c != nil && r.heard(c, e) {
			l := of(c, c.begin.Resources[0])
			l.refused = append(l.refused, e.At)
		}
	}
	for _, l := range lines {
		slices.Sort(l.refused)
	}
	return lines
}

// heard reports whether votes on a call that stood in line were a refusal of which the others in line heard: a quorum of
// nodes said that the resource is taken. Votes of the first attempt, before there was a line, may come when the call waits
// already; and an attempt that was cut short, by the end of its call, tells nobody.
func (r *run) heard(c *call, e history.Event) bool {
	if c.wait == 0 || len(c.begin.Resources) != 1 || e.At <= c.wait+r.nodeTimeout()*6/5 || e.At > c.returned(r) {
		return false
	}
	no := 0
	for _, v := range e.Votes {
		if v.Says == "taken" {
			no++
		}
	}
	return no > r.header.Nodes/2
}

func (r *run) nodeTimeout() int64 {
	if d, err := time.ParseDuration(r.header.Settings["node timeout"]); err == nil {
		return int64(d)
	}
	return int64(250 * time.Millisecond)
}

// mustWait reports whether c had to leave the lock to first. A call for several resources that stood in the line before
// both holds up the others, which ask for themselves then; so does a process that stood still.
func (r *run) mustWait(l *waitingLine, c, first *call) bool {
	for _, m := range l.mixed {
		if m.begin.At <= first.wait && m.returned(r) >= first.begin.At {
			return false
		}
	}
	// Between the choice to ask and the start of the attempt may be the wait for connections and for a place.
	gap := 2 * r.nodeTimeout()
	start := r.locks[c.id].asked
	from := max(c.begin.At, start-int64(time.Second)-r.nodeTimeout())
	for _, f := range r.faults {
		if f.hits(c.client) && f.to >= from-gap && f.from <= c.end.At {
			return false
		}
	}
	last := from - gap - 1
	for _, t := range l.refused {
		switch {
		case t <= from:
			last = t
		case t >= start:
		case t-last > gap:
			return false
		default:
			last = t
		}
	}
	return start-last <= gap
}
