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
		l := &life{b.lanes[clientLane(e.Client)], at, -1, b.text(e.Client), 0}
		b.lives[e.Client], b.Lives = l, append(b.Lives, l)
		return
	}
	if l := b.lives[e.Client]; l != nil {
		l.To, l.Ended = at, b.text(e.Err)
	}
	process := b.text(e.Client)
	for _, t := range b.Threads {
		if t.Process != process {
			continue
		}
		if l := t.lock; l != nil && l.how == "" {
			l.over(at, "the process ended")
			l.process = true
		}
		t.leave(at)
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
		if strings.HasPrefix(e.Detail, e.Fault+" of ") {
			e.Detail = "" // It says no more than name, lane and times.
		}
		f := &fault{b.lanes[name], at, -1, b.text(e.Fault), b.text(e.Detail)}
		b.Faults, b.open[key] = append(b.Faults, f), append(b.open[key], f)
		return
	}
	if begun := b.open[key]; len(begun) > 0 {
		begun[0].To = at
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
