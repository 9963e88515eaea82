package judge

import (
	"cmp"
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
		for _, l := range r.byResource[res] {
			r.counted(f, l)
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
		p := place{from: l.acquired.begin.At, to: l.got, resource: res, clients: []string{l.client}}
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

// counted looks whether a quorum of nodes had exactly the fence of a lock as their counter while they had its key.
func (r *run) counted(f *findings, l *lock) {
	keys := r.keysOf(l)
	if keys == nil || l.fence <= 0 {
		return
	}
	f.facts++
	good := 0
	for n := range r.header.Nodes {
		said := r.lostData(n, l.asked, l.got) || r.unseen(n, l.asked, l.got)
		for _, e := range r.after(site{n, keys[0]}, l.began) {
			said = said || e.From <= l.got && e.Holder == l.holder && (e.Fence == l.fence || e.Op == history.StepAsked)
		}
		if said && r.has(l.client, n) {
			good++
		}
	}
	if good < r.quorum(l.client) {
		f.violation(place{from: l.acquired.begin.At, to: l.got, resource: l.resources[0], clients: []string{l.client}},
			"%s (%s) has the fence %d, and only %d nodes had that as their counter while they had its key", l, l.holder, l.fence, good)
	}
}
