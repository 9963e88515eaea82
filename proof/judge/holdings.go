package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// signalGrace is how long after its process has woken up a loss signal may come.
const signalGrace = int64(250 * time.Millisecond)

// A holding is a time in which a library told a caller that it held a lock.
type holding struct {
	period
	of *lock
}

// holdings are those of all locks: from the return of a call that got or extended one to the validity that the call
// returned, and no longer than until the release was asked for or the loss was signalled. Where a library does not say how
// long a lock is valid, it is until the signal, for which its process must run.
func (r *run) holdings() (all []holding) {
	for _, l := range r.locks {
		end, _ := l.heldTo(r)
		pieces := l.stated()
		if len(pieces) == 0 {
			pieces = without(period{l.got, end}, r.stood(l.client, history.Freeze))
		}
		for _, p := range pieces {
			if p.to = min(p.to, end); p.from < p.to {
				all = append(all, holding{p, l})
			}
		}
	}
	return all
}

// stated are from when to when a lock was valid, each time that its library said so.
func (l *lock) stated() (all []period) {
	add := func(from, until int64) {
		if until > 0 {
			all = append(all, period{from, until})
		}
	}
	add(l.got, l.acquired.end.Until)
	for _, c := range l.extends {
		if c.ok() {
			add(c.end.At, c.end.Until)
		}
	}
	for _, c := range l.unlocks { // It was told then what the library had said last, as that extends the lock by itself.
		add(l.got, c.begin.Until)
	}
	return all
}

// without is what is left of a period without the times in which a process was frozen, and could not be told.
func without(p period, frozen []period) []period {
	pieces := []period{p}
	for _, f := range frozen {
		last := pieces[len(pieces)-1]
		thawed := f.to + signalGrace
		if f.from >= last.to || thawed <= last.from {
			continue
		}
		pieces = append(pieces[:len(pieces)-1], period{last.from, f.from}, period{thawed, last.to})
	}
	return pieces
}

// overlaps are the pairs of locks that held a resource at the same time, and the longest of these times. Both ends of one
// may be off, where a library counts milliseconds.
func overlaps(all []holding) (pairs int, longest int64) {
	seen := make(map[[2]*lock]bool)
	slices.SortFunc(all, func(a, b holding) int { return cmp.Compare(a.from, b.from) })
	for i, a := range all {
		for _, b := range all[i+1:] {
			if b.from >= a.to {
				break
			}
			both := min(a.to, b.to) - b.from
			if a.of.resources[0] == b.of.resources[0] && a.of != b.of && both > 2*rounding {
				longest = max(longest, both)
				seen[[2]*lock{a.of, b.of}] = true
			}
		}
	}
	return len(seen), longest
}
