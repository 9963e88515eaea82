package judge

import (
	"cmp"
	"maps"
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

// fenceOrder compares the fence of each lock with the largest of the locks that were got before it was asked for. Of
// locks that were asked for at overlapping times, either may have the larger one. Resources that are always locked without
// fences have none.
func fenceOrder(r *run, f *findings) {
	for _, res := range r.resources {
		got := r.byResource[res]
		if !r.fenced(res) {
			continue
		}
		asked := slices.Clone(got)
		slices.SortStableFunc(asked, func(a, b *lock) int { return cmp.Compare(a.asked, b.asked) })
		var largest *lock
		for _, l := range asked {
			for len(got) > 0 && got[0].got < l.asked {
				if largest == nil || got[0].fence > largest.fence {
					largest = got[0]
				}
				got = got[1:]
			}
			if largest == nil {
				continue
			}
			f.facts++
			if l.fence > 0 && l.fence <= largest.fence {
				f.violation(place{from: largest.got, to: l.got, resource: res, clients: []string{largest.client, l.client}},
					"%s has the fence %d, and %s, which was got before, has %d", l, l.fence, largest, largest.fence)
			}
		}
		fencesDiffer(r.byResource[res], res, f)
		slices.SortStableFunc(asked, func(a, b *lock) int { return cmp.Compare(a.fence, b.fence) })
		for _, l := range asked {
			r.counted(f, l, asked)
		}
	}
}

// fenced reports whether the locks on a resource have fences.
func (r *run) fenced(res string) bool {
	return slices.Contains(r.header.Fenced, res) || slices.ContainsFunc(r.byResource[res], func(l *lock) bool { return l.fence > 0 })
}

// fencesDiffer sees that every lock has a fence, and one of its own.
func fencesDiffer(locks []*lock, res string, f *findings) {
	of := make(map[int64]*lock)
	for _, l := range locks {
		p := l.place(l.acquired.begin.At, l.got)
		p.resource = res
		f.facts++
		switch other := of[l.fence]; {
		case l.fence <= 0:
			f.violation(p, "%s has no fence", l)
		case other != nil:
			p.clients = append(p.clients, other.client)
			f.violation(p, "%s and %s have both the fence %d", other, l, l.fence)
		}
		of[l.fence] = l
	}
}

// counted looks whether a quorum of nodes had exactly the fence of a lock as their counter while they had its key. Locks of a
// turn share that, and have fences up to it: no other lock has one among these.
func (r *run) counted(f *findings, l *lock, byFence []*lock) {
	keys := r.keysOf(l)
	if keys == nil || l.fence <= 0 {
		return
	}
	f.facts++
	good, unknown := make(map[int64]int), 0 // Nodes, by their counters.
	for n := range r.header.Nodes {
		if !r.has(l.client, n) {
			continue
		}
		said, asked := make(map[int64]bool), r.lostData(n, l.asked, l.got) || r.unseen(n, l.asked, l.got)
		for _, e := range r.after(site{n, keys[0]}, l.began) {
			if e.From <= l.got && e.Holder == l.holder {
				said[e.Fence], asked = true, asked || e.Op == history.StepAsked
			}
		}
		if asked {
			unknown++
			continue
		}
		for fence := range said {
			good[fence]++
		}
	}
	top := l.fence
	for fence, n := range good {
		if l.acquired.takesPart() && fence > l.fence && n > good[top] {
			top = fence
		}
	}
	p := l.place(l.acquired.begin.At, l.got)
	if n := good[top] + unknown; n < r.quorum(l.client) {
		f.violation(p, "%s (%s) has the fence %d, and only %d nodes had %d as their counter while they had its key", l, l.holder, l.fence, n, top)
	}
	if good[top] < r.quorum(l.client) {
		return // Nobody knows up to where they go.
	}
	next, _ := slices.BinarySearchFunc(byFence, l.fence+1, func(o *lock, fence int64) int { return cmp.Compare(o.fence, fence) })
	for _, o := range byFence[next:] {
		if o.fence <= top && o.holder != l.holder {
			f.violation(p, "%s (%s) has the fence %d of those up to %d, and %s (%s) has %d", l, l.holder, l.fence, top, o, o.holder, o.fence)
		}
		if o.fence > top {
			break
		}
	}
}

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
