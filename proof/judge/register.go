package judge

import (
	"maps"
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

// register looks at the observer's registers. Each section reads a value and writes it back plus one, so that the value
// is the number of writes in the end, unless two sections that were not kept apart have lost one.
func register(r *run, f *findings) {
	for _, res := range slices.Sorted(maps.Keys(r.operations)) {
		operations := r.operations[res]
		if r.fenced(res) {
			lostWrites(r, f, res, operations) // Nothing else keeps out a process that was suspended before its write.
		}
		for _, e := range operations {
			otherFence(r, f, res, e)
			if !e.OK && e.End > 0 {
				refusedHolder(r, f, res, e)
			}
		}
	}
}

// otherFence looks whether an operation carries the fence of its lock: another one guards nothing.
func otherFence(r *run, f *findings, res string, e history.Event) {
	l := r.lockOf(e)
	if l == nil {
		return
	}
	f.facts++
	if e.Fence != l.fence {
		f.violation(place{from: e.At, to: max(e.At, e.End), resource: res, clients: []string{e.Client}},
			"a %s by %s had the fence %d, and %s has %d", e.Kind, e.Client, e.Fence, l, l.fence)
	}
}

func lostWrites(r *run, f *findings, res string, operations []history.Event) {
	final, ok := r.final[res]
	if !ok {
		return // The rule 'complete' says so.
	}
	f.facts++
	if n := granted(operations); n != int(final.Value) {
		f.violation(place{from: final.At, to: final.At, resource: res},
			"%d writes were granted, and the register is %d in the end", n, final.Value)
	}
}

// granted is how many writes a register has taken.
func granted(operations []history.Event) (n int) {
	for _, e := range operations {
		if e.Kind == history.Write && e.OK {
			n++
		}
	}
	return n
}

// refusedHolder looks whether the lock of an operation that was refused was in force all the time: then there must not
// have been a later one.
func refusedHolder(r *run, f *findings, res string, e history.Event) {
	l := r.lockOf(e)
	if l == nil {
		return
	}
	f.facts++
	if l.got <= e.At && e.End <= l.over {
		f.violation(place{from: e.At, to: e.End, resource: res, clients: []string{e.Client}},
			"a %s by %s with the fence %d was refused, while %s was held until %s", e.Kind, e.Client, e.Fence, l, at(l.over))
	}
}
