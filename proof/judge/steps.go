package judge

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/trace"
)

// A site is a key on a node.
type site struct {
	node int
	key  string
}

// A trail is all that was seen of nodes: package trace saw each step of theirs, but for gaps.
type trail struct {
	seen map[site][]*history.Event
	gaps map[int][]period
	keys map[string][]string // By holder: those that were seen to be its own, on any node.
	odd  []*history.Event
	late []*history.Event // Servers that answered late.
}

// readStep notes a step.
func (r *run) readStep(e *history.Event) {
	n := *e.Node
	switch e.Op {
	case history.StepGap:
		r.gaps[n] = append(r.gaps[n], period{e.At, r.end})
	case history.StepWatch:
		if len(r.gaps[n]) == 0 {
			r.gaps[n] = []period{{}}
		}
		r.gaps[n][len(r.gaps[n])-1].to = e.At
	case history.StepWiped, history.StepSet: // What nodes had then is not known.
		r.gaps[n] = append(r.gaps[n], period{e.At, e.At})
	case history.StepLate:
		r.late = append(r.late, e)
	case history.StepOdd:
		r.trail.odd = append(r.trail.odd, e)
	default:
		at := site{n, e.Resources[0]}
		r.seen[at] = append(r.seen[at], e)
		if e.Holder != "" && !slices.Contains(r.keys[e.Holder], at.key) {
			r.keys[e.Holder] = append(r.keys[e.Holder], at.key)
		}
	}
}

// keysOf are the keys of a lock, nil if that is not known.
func (r *run) keysOf(l *lock) []string {
	switch keys := r.keys[l.holder]; {
	case l.holder == "" || len(r.gaps) == 0:
		return nil
	case len(keys) == len(l.resources):
		return keys
	case len(keys) == 0 && l.acquired.begin.Permits == 0:
		return l.resources // No node had one.
	}
	return nil
}

// holder is the digest of the token that a call ended with.
func holder(e history.Event) string {
	if e.Holder == "" && e.Token != "" {
		return trace.Digest(e.Token[strings.LastIndex(e.Token, ",")+1:]) // The last of those that it has tried.
	}
	return e.Holder
}

// What is known of whether a node had a lock's key.
type having int

const (
	no having = iota
	maybe
	yes
)

// gives are the steps after which the holder has the key.
var gives = []string{history.StepGrant, history.StepExtend, history.StepShorten, history.StepFound, history.StepCount}

// had says whether a node had the key of a holder at t, whose call began then, and its attempt since.
func (r *run) had(holder string, at site, began, since, t int64) (is having) {
	known := since
	for _, e := range r.after(at, began) {
		if e.From > t {
			break
		}
		switch {
		case e.Holder != holder && e.Op != history.StepGrant && e.Op != history.StepFound:
			continue // It was another's, and says so when it was got.
		case e.Holder == holder && e.Op == history.StepAsked:
			is = max(is, maybe)
		case e.At > t:
			is = maybe
		case e.Holder == holder && slices.Contains(gives, e.Op):
			is = yes
		default:
			is = no
		}
		known = max(known, e.At)
	}
	if r.unseen(at.node, known, t) {
		return maybe
	}
	return is
}

// after are the steps at a site that may have been done after an instant.
func (r *run) after(at site, since int64) []*history.Event {
	steps := r.seen[at]
	from, _ := slices.BinarySearchFunc(steps, since, func(e *history.Event, t int64) int { return cmp.Compare(e.At, t) })
	return steps[from:]
}

// unseen reports whether anything may have been missed of a node.
func (r *run) unseen(node int, from, to int64) bool {
	return len(r.gaps[node]) == 0 || slices.ContainsFunc(r.gaps[node], func(g period) bool { return g.from <= to && g.to >= from })
}

// hold is how many nodes of its client may have had all keys of a lock at t, and how many surely had one. A node that has
// lost data may have had them.
func (r *run) hold(l *lock, keys []string, t int64) (all, any int) {
	for n := range r.header.Nodes {
		if !r.has(l.client, n) {
			continue
		}
		least, most := yes, no
		for _, key := range keys {
			had := r.had(l.holder, site{n, key}, l.began, l.asked, t)
			least, most = min(least, had), max(most, had)
		}
		if least > no || r.lostData(n, l.asked, t) {
			all++
		}
		if most == yes {
			any++
		}
	}
	return all, any
}

// steps looks at what package trace could not explain.
func steps(r *run, f *findings) {
	for _, all := range r.seen {
		f.facts += len(all)
	}
	for _, e := range r.trail.odd {
		f.facts++
		f.violation(place{from: e.From, to: e.At, resource: e.Resources[0]}, "node %d at %s, key %s: %s", *e.Node, at(e.At), e.Resources[0], e.Detail)
	}
}
