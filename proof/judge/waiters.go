package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// calm is for how long a quorum of nodes and the process must have been left alone: otherwise those in line may ask for
// themselves, as the first one has told them nothing for more than twice its retry delay and the node timeout.
const calm = int64(3500 * time.Millisecond)

// waiters compares calls of Lock of one process. If one was in line when another came, and both have got the lock, then
// the first one got it first. That holds for calls that want one and the same resource. Calls for several resources, or
// of different processes, may overtake each other.
func waiters(r *run, f *findings) {
	type line struct{ client, resource string }
	lines := make(map[line][]*call)
	mixed := make(map[line][]*call) // for several resources
	for _, c := range r.inOrder {
		if c.begin.Op != history.OpLock {
			continue
		}
		for _, res := range c.begin.Resources {
			if in := (line{c.client, res}); len(c.begin.Resources) > 1 {
				mixed[in] = append(mixed[in], c)
			} else if c.ok() && c.wait > 0 {
				lines[in] = append(lines[in], c)
			}
		}
	}
	for in, came := range lines {
		inLine := slices.SortedStableFunc(slices.Values(came), func(a, b *call) int { return cmp.Compare(a.wait, b.wait) })
		var last *call // of those in line, who got it last
		for _, c := range came {
			for len(inLine) > 0 && inLine[0].wait < c.begin.At {
				if last == nil || inLine[0].end.At > last.end.At {
					last = inLine[0]
				}
				inLine = inLine[1:]
			}
			if last == nil || last.end.At < c.begin.At || r.disturbed(c, last, mixed[in]) {
				continue
			}
			f.facts++
			if c.end.At < last.end.At {
				f.violation(place{from: last.begin.At, to: last.end.At, resource: in.resource, clients: []string{in.client}},
					"%s waited since %s; %s came at %s, and got the lock at %s, %s before it", last, at(last.wait), c,
					at(c.begin.At), at(c.end.At), span(c.end.At, last.end.At))
			}
		}
	}
}

// disturbed reports whether c may overtake first: because a call for several resources stood in the line before both, or
// because of a fault that keeps the first in line from asking.
func (r *run) disturbed(c, first *call, mixed []*call) bool {
	for _, m := range mixed {
		if m.begin.At <= first.wait && m.returned(r) >= first.begin.At {
			return true
		}
	}
	until := min(c.end.At, first.end.At)
	from := until - calm
	away := make(map[int]bool)
	for _, f := range r.faults {
		switch {
		case f.from > until || f.to < from:
		case f.node >= 0:
			away[f.node] = true
		case f.client == "" || f.hits(c.client):
			return true
		}
	}
	need := r.header.Nodes/2 + 1
	return len(away) > r.header.Nodes-need
}
