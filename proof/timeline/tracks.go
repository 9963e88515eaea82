package timeline

import (
	"cmp"
	"slices"

	"github.com/seed6c881748/redlock/proof/judge"
)

// finish computes what needs the whole history.
func (b *builder) finish(violations []judge.Violation) {
	for t := range b.Threads {
		l := b.locks[t]
		if l == nil {
			continue
		}
		times, how := l.times()
		for i, h := range times {
			h.Thread, h.Ended = t, b.text(how[i])
			b.Holds = append(b.Holds, h)
			b.reach(t, max(h.To, h.Dead))
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
		if end, ok := ends[b.Threads[c.Thread].Process]; ok && c.To < 0 {
			b.reach(c.Thread, end)
		}
	}
}

// makeTracks puts the threads of a lane beside each other, and renumbers them in the order in which they are drawn.
func (b *builder) makeTracks() {
	order := make([]int, len(b.Threads))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(b.Threads[x].From, b.Threads[y].From) })
	free := make([][]int64, len(b.Lanes)) // By lane and track: from when on.
	for _, i := range order {
		t := &b.Threads[i]
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
	b.sortThreads(order)
}

func (b *builder) sortThreads(order []int) {
	slices.SortStableFunc(order, func(x, y int) int {
		s, t := b.Threads[x], b.Threads[y]
		return cmp.Or(cmp.Compare(s.Lane, t.Lane), cmp.Compare(s.Track, t.Track), cmp.Compare(s.From, t.From))
	})
	sorted, now := make([]thread, len(order)), make([]int, len(order))
	for i, was := range order {
		sorted[i], now[was] = b.Threads[was], i
	}
	b.Threads = sorted
	for i := range b.Calls {
		c := &b.Calls[i]
		c.Thread = now[c.Thread]
		if c.Of >= 0 {
			c.Of = now[c.Of]
		}
	}
	for i := range b.Holds {
		b.Holds[i].Thread = now[b.Holds[i].Thread]
	}
	for i := range b.Sections {
		b.Sections[i].Thread = now[b.Sections[i].Thread]
	}
	for i := range b.Accesses {
		b.Accesses[i].Thread = now[b.Accesses[i].Thread]
	}
	for i := range b.Losses {
		b.Losses[i].Thread = now[b.Losses[i].Thread]
	}
}
