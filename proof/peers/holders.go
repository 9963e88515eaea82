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

	of *call
}

// holdings are the times of all locks of a history: from the return of a call that acquired or extended it to the
// validity that the call returned, and no longer than until the release was asked for or the loss was signalled.
// Where a library does not say how long a lock is valid, it is until the signal, for which its process must run.
func (h *ran) holdings() (all []holding) {
	for _, c := range h.calls {
		if !c.locked {
			continue
		}
		end := min(c.released, c.lost, c.down, h.end)
		pieces := c.untils
		if len(pieces) == 0 {
			pieces = without(span{c.to, end}, h.frozen(c.client))
		}
		for _, s := range pieces {
			if s.to = min(s.to, end); s.from < s.to {
				all = append(all, holding{s, c})
			}
		}
	}
	return all
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
	return pieces
}

// overlaps are the pairs of locks that held a resource at the same time, and the longest of these times.
func overlaps(all []holding) (pairs int, longest time.Duration) {
	seen := make(map[[2]*call]bool)
	slices.SortFunc(all, func(a, b holding) int { return cmp.Compare(a.from, b.from) })
	for i, a := range all {
		for _, b := range all[i+1:] {
			if b.from >= a.to {
				break
			}
			both := a.common(b.span)
			if a.of.resource == b.of.resource && a.of != b.of && both > rounding {
				longest = max(longest, both)
				seen[[2]*call{a.of, b.of}] = true
			}
		}
	}
	return len(seen), longest
}

// lostUpdates counts the writes that the register took, and that are not in its value.
func lostUpdates(events []history.Event) (lost int) {
	for _, e := range events {
		switch {
		case e.Kind == history.Write && e.OK:
			lost++
		case e.Kind == history.Register:
			lost -= int(e.Value)
		}
	}
	return lost
}
