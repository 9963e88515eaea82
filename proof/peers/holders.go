package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// rounding is what times of a library that counts milliseconds may be off by.
const rounding = 2 * time.Millisecond

// signalGrace is how long after its process has woken up a loss signal may come.
const signalGrace = 250 * time.Millisecond

// A span is a piece of a run.
type span struct{ from, to int64 }

func (s span) length() time.Duration { return time.Duration(s.to - s.from) }

// common is how long both last at once.
func (s span) common(o span) time.Duration {
	return max(0, span{max(s.from, o.from), min(s.to, o.to)}.length())
}

// A holding is a time in which a library told a caller that it held a resource.
type holding struct {
	span

	resource, client string
	lock             int
}

// holdings are the times of all locks of a history: from the return of a call that acquired or extended it to the
// validity that the call returned, and no longer than until the release was asked for or the loss was signalled.
// Where a library does not say how long a lock is valid, it is until the signal, for which its process must run.
func (h *ran) holdings() []holding {
	var all []holding
	for _, l := range h.locks {
		for _, s := range l.valid(h) {
			all = append(all, holding{s, l.resource, l.client, l.call})
		}
	}
	return all
}

// valid are the pieces of a lock's time.
func (l *lock) valid(h *ran) []span {
	end := min(l.released, l.lost, h.end)
	if down, ok := h.downs[l.client]; ok {
		end = min(end, down)
	}
	if len(l.untils) == 0 {
		return without(span{l.since, end}, h.frozen[l.client])
	}
	var pieces []span
	for _, u := range l.untils {
		if s := (span{u.from, min(u.to, end)}); s.from < s.to {
			pieces = append(pieces, s)
		}
	}
	return pieces
}

// without is what is left of a span without the times in which a process was frozen, and could not be told.
func without(s span, frozen []span) []span {
	pieces := []span{s}
	for _, f := range frozen {
		last := pieces[len(pieces)-1]
		thawed := f.to + int64(signalGrace)
		if f.from >= last.to || thawed <= last.from {
			continue
		}
		pieces = append(pieces[:len(pieces)-1], span{last.from, f.from}, span{thawed, last.to})
	}
	return slices.DeleteFunc(pieces, func(s span) bool { return s.from >= s.to })
}

// overlaps are the pairs of locks that held a resource at the same time, and the longest of these times.
func overlaps(all []holding) (pairs int, longest time.Duration) {
	type pair struct{ a, b holding }
	seen := make(map[pair]bool)
	slices.SortFunc(all, func(a, b holding) int { return cmp.Compare(a.from, b.from) })
	for i, a := range all {
		for _, b := range all[i+1:] {
			if b.from >= a.to {
				break
			}
			both := a.common(b.span)
			if a.resource != b.resource || a.client == b.client && a.lock == b.lock || both <= rounding {
				continue
			}
			longest = max(longest, both)
			key := pair{a, b}
			key.a.span, key.b.span = span{}, span{}
			seen[key] = true
		}
	}
	return len(seen), longest
}

// updates counts the writes that the register took, and those that are not in its value.
func updates(events []history.Event) (taken, lost int64) {
	for _, e := range events {
		switch {
		case e.Kind == history.Write && e.OK:
			taken++
			lost++
		case e.Kind == history.Register:
			lost -= e.Value
		}
	}
	return taken, lost
}
