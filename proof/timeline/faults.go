package timeline

import (
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
)

// upOrDown begins or ends a process; with it ends what its locks do, though not how long they keep others out.
func (b *builder) upOrDown(e history.Event) {
	at := micro(e.At)
	if e.Kind == history.Up {
		b.lives[e.Client] = len(b.Lives)
		b.Lives = append(b.Lives, life{b.lanes[clientLane(e.Client)], at, -1, b.text(e.Client), 0})
		return
	}
	if n, ok := b.lives[e.Client]; ok {
		b.Lives[n].To, b.Lives[n].Ended = at, b.text(e.Err)
	}
	process := b.text(e.Client)
	for t, l := range b.locks {
		if b.Threads[t].Process == process && !l.ended {
			l.over(at, "the process ended")
			l.process = true
		}
	}
	for t, s := range b.inside {
		if b.Threads[t].Process == process {
			b.Sections[s].To = at
			delete(b.inside, t)
		}
	}
}

func (b *builder) fault(e history.Event) {
	name := laneOfAll
	switch {
	case e.Node != nil && *e.Node >= 0:
		name = nodeLane(*e.Node)
	case e.Client != "":
		name = clientLane(e.Client)
	}
	key, at := e.Fault+" of "+name, micro(e.At)
	if e.Kind == history.FaultBegin {
		b.open[key] = append(b.open[key], len(b.Faults))
		if strings.HasPrefix(e.Detail, e.Fault+" of ") {
			e.Detail = "" // It says no more than name, lane and times.
		}
		b.Faults = append(b.Faults, fault{b.lanes[name], at, -1, b.text(e.Fault), b.text(e.Detail)})
		return
	}
	if begun := b.open[key]; len(begun) > 0 {
		b.Faults[begun[0]].To = at
		b.open[key] = begun[1:]
	}
}

// violation is marked over the lanes of its clients, or over all if it names none.
func (b *builder) violation(x judge.Violation) {
	m := mark{From: micro(x.From), To: micro(max(x.From, x.To)), Rule: x.Rule, Text: x.Sentence, Lanes: []int{}, Of: -1}
	if x.Resource != "" {
		m.Of = b.resource(x.Resource)
	}
	for _, c := range x.Clients {
		if n, ok := b.lanes[clientLane(c)]; ok && !slices.Contains(m.Lanes, n) {
			m.Lanes = append(m.Lanes, n)
		}
	}
	b.Violations = append(b.Violations, m)
}
