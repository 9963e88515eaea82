package judge

import (
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

// bounds looks at every call that has a bound. Time in which the process stood still does not count.
func bounds(r *run, f *findings) {
	for _, c := range r.inOrder {
		var last history.Event // What nodes said to the last attempt of the call.
		for _, e := range r.votes[c.id] {
			if e.From >= last.From {
				last = e
			}
		}
		decided(r, f, c, last)
		if c.begin.Bound == 0 {
			continue
		}
		due := c.begin.Bound
		if c.end != nil && c.end.At <= due {
			f.facts++
			continue
		}
		due += r.slack(c.client, due)
		due = r.excused(c.client, c.begin.At, due-c.begin.At)
		p := place{from: c.begin.At, to: c.returned(r), clients: []string{c.client}}
		if len(c.begin.Resources) > 0 {
			p.resource = c.begin.Resources[0]
		}
		if c.end != nil {
			f.facts++
			if c.end.At > due {
				f.violation(p, "%s had to return by %s, and returned at %s", c, at(due), at(c.end.At))
			}
			continue
		}
		if ended := r.lived(c.client); ended > due {
			f.facts++
			f.violation(p, "%s had to return by %s, and had not at %s", c, at(due), at(ended))
		}
	}
}

// decided looks at a call that got a lock without a fence, which may take more: it waits for no more nodes than a quorum. A
// quorum that leaves no more of the ttl than the min hold is no lock, and the call goes on with another attempt; so it does when
// an attempt is given up, whose votes may still come.
func decided(r *run, f *findings, c *call, e history.Event) {
	l, need := r.locks[c.id], r.quorum(c.client)
	if l == nil || l.fence > 0 || c.begin.Permits > 0 || l.from != nil {
		return
	}
	var yes []int64
	for _, v := range e.Votes {
		if v.Says == "yes" && v.At > 0 {
			yes = append(yes, v.At)
		}
	}
	if slices.Sort(yes); len(yes) < need {
		return
	}
	by := yes[need-1]
	slack := r.slack(c.client, by)
	end := r.ends(c, max(e.From, c.begin.At), c.begin.TTL)
	if end-by <= c.begin.MinHold+slack || c.begin.MinHold == 0 && end < c.end.Until-2*rounding {
		return
	}
	f.facts++
	if due := r.excused(c.client, by, slack); c.end.At > due {
		f.violation(place{from: c.begin.At, to: c.end.At, resource: l.resources[0], clients: []string{c.client}},
			"%s had %d votes at %s, which is a quorum, and returned at %s", c, need, at(by), at(c.end.At))
	}
}
