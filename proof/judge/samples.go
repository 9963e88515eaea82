package judge

import (
	"slices"
	"strings"
	"time"
)

const (
	// SampleEvery is how often keys are looked at, and unlooked how far two looks may be apart for nothing to have happened
	// between them.
	SampleEvery = 50 * time.Millisecond
	unlooked    = 4 * int64(SampleEvery)
	// tidied is how long keys may still be there that nobody has a use for.
	tidied = int64(time.Second)
)

// A Sample is what a node had in the key of a resource, "" if nothing.
type Sample struct {
	At              int64
	Node            int
	Resource, Value string
}

// orphans counts keys that stayed for longer than tidied on a node that worked, although the call that made them was
// over and its process lived: left by a call that failed, and by a release that returned.
func (r *run) orphans(seen []Sample) (failed, released int) {
	type key struct {
		node  int
		value string
	}
	type stay struct {
		since, last int64
		counted     bool
	}
	owners := make(map[string]*call) // Of the values that are known.
	for _, c := range r.inOrder {
		if c.end != nil {
			for value := range strings.SplitSeq(c.end.Token, ",") {
				owners[value] = c
			}
		}
	}
	stays := make(map[key]stay)
	for _, s := range seen {
		k, c := key{s.Node, s.Value}, owners[s.Value]
		at := stays[k]
		if at.counted || s.Value == "" || c == nil || !r.useless(c, s.At) {
			continue
		}
		if s.At-at.last > unlooked || r.wrong(s.At, 0, s.Node) {
			at.since = s.At
		}
		at.last = s.At
		if at.counted = s.At-at.since > tidied; at.counted {
			if r.locks[c.id] != nil {
				released++
			} else {
				failed++
			}
		}
		stays[k] = at
	}
	return failed, released
}

// useless reports whether the key of a call was of no use any more. If its lock was still held when its process was killed,
// that leaves one for a ttl.
func (r *run) useless(c *call, t int64) bool {
	over := c.end
	if l := r.locks[c.id]; l != nil {
		if over = nil; len(l.unlocks) > 0 {
			over = l.unlocks[0].end
		}
	}
	down, killed := r.down[c.client]
	return over != nil && t > over.At || over == nil && killed && t > down+c.begin.TTL
}

// slept reports whether a call waited while for a while, without any fault, no node had a key of its resource.
func (r *run) slept(c *call, seen []Sample) bool {
	end := min(c.returned(r), r.lived(c.client))
	free, last := int64(0), int64(0) // Since when it is, as far as is known.
	for _, s := range seen {         // In the order of time.
		switch {
		case s.Resource != c.begin.Resources[0] || s.At < c.begin.At:
			continue
		case s.At > end:
			return false
		case s.Value != "" || s.At-last > unlooked || r.wrong(s.At, nextWithin, -1):
			free = s.At
		case s.At-free > nextWithin:
			return true
		}
		last = s.At
	}
	return false
}

// wrong reports whether anything was then, or just had been: with this node, or with any if it is -1.
func (r *run) wrong(t, just int64, node int) bool {
	return slices.ContainsFunc(r.faults, func(f fault) bool {
		return (node < 0 || f.node < 0 || f.node == node) && f.from <= t && t < f.to+just
	})
}
