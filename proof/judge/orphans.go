package judge

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/trace"
)

// tidied is how long keys may still be there that nobody has a use for.
const tidied = int64(time.Second)

// An orphan is a key that stayed on a node that its client could reach, although the client's process lived and the call that
// had made the key was over: it had failed, or the lock was released.
type orphan struct {
	site
	of       *call
	from, to int64
	released bool
}

// orphans finds those that stayed for too long.
func (r *run) orphans() (all []orphan, looked int) {
	owners := make(map[string]*call) // By digests of values, and by their labels, as far as those are known.
	for _, c := range r.inOrder {
		if c.end == nil {
			continue
		}
		for value := range strings.SplitSeq(c.end.Token, ",") {
			owners[value], owners[trace.Digest(value)] = c, c
			if raw, err := hex.DecodeString(value); err == nil {
				owners[trace.Digest(string(raw))] = c
			}
		}
		owners[c.end.Holder] = c
	}
	delete(owners, "")
	for at, steps := range r.seen {
		for i, e := range steps {
			c := owners[e.Holder]
			if c == nil {
				c = owners[e.Owner]
			}
			if e.Op != history.StepGrant && e.Op != history.StepFound || c == nil {
				continue
			}
			looked++
			o := orphan{site: at, of: c, to: r.end, released: r.locks[c.id] != nil}
			for _, end := range steps[i+1:] {
				if end.Holder != e.Holder || end.Op == history.StepExpire || end.Op == history.StepRelease || end.Op == e.Op {
					o.to = end.From
					break
				}
			}
			if from, useless := r.useless(c); useless {
				o.from = max(from, e.At)
				if r.stayed(o) {
					all = append(all, o)
				}
			}
		}
	}
	return all, looked
}

// stayed reports whether nothing explains that the key was still there.
func (r *run) stayed(o orphan) bool {
	client := o.of.client
	due := r.excused(client, o.from, tidied) + r.slack(client, o.from)
	sick := r.sick(client, o.from-settling, due)
	return o.to > due && due < r.lived(client) && sick != nil && !sick[o.node] && !r.unseen(o.node, o.from, due) && !r.starved(o.from, due)
}

// useless is since when the keys of a call are of no use any more. Those of a lock that nobody has released expire.
func (r *run) useless(c *call) (from int64, is bool) {
	l := r.locks[c.id]
	switch {
	case l == nil:
		return c.end.At, true
	case l.acquired.begin.MinHold > 0 || len(l.unlocks) == 0 || l.unlocks[0].end == nil || !l.unlocks[0].ok():
		return 0, false
	}
	return l.unlocks[0].end.At, true
}

// leftBehind looks at the keys that were of no use.
func leftBehind(r *run, f *findings) {
	all, looked := r.orphans()
	f.facts += looked
	for _, o := range all {
		f.violation(place{from: o.of.begin.At, to: o.to, resource: o.key, clients: []string{o.of.client}},
			"%s was over at %s, and node %d still had its key %s at %s", o.of, at(o.from), o.node, o.key, at(o.to))
	}
}

// slept reports whether a call waited while for a while, without any fault, no node had a key of its resource.
func (r *run) slept(c *call) bool {
	end := min(c.returned(r), r.lived(c.client))
	has := make(map[int]bool)
	free := c.begin.At // Since when nobody has it, as far as is known.
	slept := func(t int64) bool { return len(has) == 0 && min(t, end)-r.wellSince(free, t) > nextWithin }
	for _, e := range r.events {
		if e.Kind != history.Step || len(e.Resources) == 0 || e.Op == history.StepOdd ||
			e.Resources[0] != c.begin.Resources[0] && !strings.HasSuffix(e.Resources[0], ":"+c.begin.Resources[0]) {
			continue
		}
		if e.At > end || slept(e.At) {
			break
		}
		if slices.Contains(gives, e.Op) && e.Holder != "" || e.Op == history.StepAsked {
			has[*e.Node] = true
		} else if delete(has, *e.Node); len(has) == 0 {
			free = max(e.At, c.begin.At)
		}
	}
	return slept(end)
}

// wellSince is since when nothing was wrong before t, nor just had been; from at the earliest.
func (r *run) wellSince(from, t int64) int64 {
	for _, f := range r.faults {
		if f.from <= t {
			from = max(from, f.to+nextWithin)
		}
	}
	return from
}
