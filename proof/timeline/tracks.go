package timeline

import (
	"cmp"
	"slices"

	"github.com/seed6c881748/redlock/proof/judge"
)

// finish computes what needs the whole history.
func (b *builder) finish(violations []judge.Violation) {
	for _, t := range b.Threads {
		if t.lock == nil {
			continue
		}
		times, how := t.lock.times()
		for i, h := range times {
			h.Thread, h.Ended = t, b.text(how[i])
			b.Holds = append(b.Holds, h)
			t.reach(max(h.To, h.Dead))
			b.End = max(b.End, h.To)
		}
	}
	b.endPending()
	b.makeTracks()
	for _, x := range violations {
		b.violation(x)
	}
}

// endPending lets the threads of calls that did not return last as long as their process.
func (b *builder) endPending() {
	ends := map[int]int64{}
	for _, l := range b.Lives {
		ends[l.Process] = cmp.Or(max(l.To, 0), b.End)
	}
	for _, c := range b.Calls {
		if end, ok := ends[c.Thread.Process]; ok && c.To < 0 {
			c.Thread.reach(end)
		}
	}
}

// makeTracks puts the threads of a lane beside each other, and numbers them in the order in which they are drawn.
func (b *builder) makeTracks() {
	slices.SortStableFunc(b.Threads, func(x, y *thread) int { return cmp.Compare(x.From, y.From) })
	free := make([][]int64, len(b.Lanes)) // By lane and track: from when on.
	for _, t := range b.Threads {
		tracks := free[t.Lane]
		t.Track = slices.IndexFunc(tracks, func(at int64) bool { return at <= t.From })
		if t.Track < 0 {
			t.Track = len(tracks)
			free[t.Lane] = append(tracks, 0)
		}
		free[t.Lane][t.Track] = t.To + 1
	}
	for i, tracks := range free {
		b.Lanes[i].Tracks = len(tracks)
	}
	slices.SortStableFunc(b.Threads, func(x, y *thread) int {
		return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.Track, y.Track), cmp.Compare(x.From, y.From))
	})
	for i, t := range b.Threads {
		t.number = i
	}
}
