package judge

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/trace"
)

// released looks at what the nodes had of a lock whose Unlock had just returned nil: a quorum has none of its keys.
func released(r *run, f *findings) {
	for _, l := range r.got {
		keys := r.keysOf(l)
		if keys == nil || l.acquired.begin.MinHold > 0 {
			continue
		}
		for _, c := range l.unlocks {
			if !c.ok() || c.begin.Detail == history.ByDo || l.wentOn(r) {
				continue
			}
			f.facts++
			if _, left := r.hold(l, keys, c.end.At); r.nodes(l.client)-left < r.quorum(l.client) {
				f.violation(l.place(c.begin.At, c.end.At),
					"%s returned nil, and %d nodes still had %s (%s)", c, left, l, l.holder)
			}
		}
	}
}

// keysLeft looks at what each node had left in the end.
func keysLeft(r *run, f *findings) {
	for _, e := range r.events {
		if e.Kind != history.Keys || e.Node == nil {
			continue
		}
		f.facts++
		if keys := slices.DeleteFunc(slices.Clone(e.Keys), func(key string) bool {
			return strings.HasPrefix(key, "long:") && slices.ContainsFunc(r.faults, func(x fault) bool { // It may be there again.
				return x.name == history.Stale && x.node == *e.Node
			})
		}); len(keys) > 0 {
			f.violation(place{from: e.At, to: e.At}, "node %d had %d keys left: %q %s", *e.Node, len(keys), keys, e.Detail)
		}
	}
	leftBehind(r, f)
}

const (
	// soon is how long keys may still be there that nobody has a use for.
	soon = int64(600 * time.Millisecond)
	// asksAgain is how soon after an attempt its call may go on with what that has got: where votes were split.
	asksAgain = int64(50 * time.Millisecond)
)

// An orphan is a key that stayed on a node that its client could reach, although the client's process lived and what had made
// the key was over: an attempt had failed, or the lock was released.
type orphan struct {
	site
	holder   string
	client   string // Whose process has to delete it.
	from, to int64  // It was of no use from then on, and was there to then.
}

// orphans finds those that stayed for too long.
func (r *run) orphans() (all []orphan, looked int) {
	owners := r.owners()
	attempts := r.attempts()
	for at, steps := range r.seen {
		for i, e := range steps {
			if e.Op != history.StepGrant && e.Op != history.StepFound || e.Holder == "" {
				continue
			}
			o := orphan{site: at, holder: e.Holder, to: r.end}
			for _, next := range steps[i+1:] { // A release ends it, an expiry does, and what comes to somebody else.
				if next.Holder != e.Holder || next.Op == history.StepExpire || next.Op == history.StepRelease || next.Op == e.Op {
					o.to = next.From
					break
				}
			}
			for _, gap := range r.gaps[at.node] {
				if gap.from > e.At {
					o.to = min(o.to, gap.from)
				}
			}
			useless := false
			if c := owners[e.Holder]; c != nil {
				o.client, o.from, useless = r.useless(c)
			} else if c = owners[e.Owner]; c != nil {
				o.client, o.from, useless = r.useless(c)
			} else if tried := attempts[attempted{e.Owner, called(at.key)}]; tried != nil {
				o.client, o.from, useless = e.Owner, failed(tried, e), true
			}
			if o.from = max(o.from, e.At); useless {
				if looked++; r.stayed(o) {
					all = append(all, o)
				}
			}
		}
	}
	return all, looked
}

// owners are calls by the digests of what they have written, or by their labels, as far as those are known.
func (r *run) owners() map[string]*call {
	owners := make(map[string]*call)
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
	for _, l := range r.got {
		if l.from != nil && l.to == nil { // The last one of its turn has to delete the keys.
			owners[l.holder] = l.acquired
		}
	}
	delete(owners, "")
	return owners
}

// An attempted is what a client's attempts were for.
type attempted struct{ client, key string }

// An attempt is a time in which a call has asked the nodes.
type attempt struct {
	period
	of id
}

// attempts are all of them, by when they began.
func (r *run) attempts() map[attempted][]attempt {
	all := make(map[attempted][]attempt)
	for _, c := range r.inOrder {
		for _, v := range r.votes[c.id] {
			for _, key := range c.begin.Resources {
				of := attempted{c.client, called(key)}
				all[of] = append(all[of], attempt{period{v.From, v.At}, c.id})
			}
		}
	}
	for _, tried := range all {
		slices.SortFunc(tried, func(a, b attempt) int { return cmp.Compare(a.from, b.from) })
	}
	return all
}

// called is what a call names that has got a key: the semaphore of a slot, as "name" of "name#3".
func called(key string) string {
	name, _, _ := strings.Cut(key, "#")
	return name
}

// failed is when the attempt was over that has made a key, and has got no lock. Several may have.
func failed(tried []attempt, made *history.Event) int64 {
	over := made.At
	for i, p := range tried {
		if p.from > made.At || p.to < made.From {
			continue
		}
		end := p.to
		for _, next := range tried[i+1:] {
			if next.of == p.of && next.from <= end+asksAgain {
				end = max(end, next.to)
			}
		}
		over = max(over, end)
	}
	return over
}

// stayed reports whether nothing explains that the key was still there: its client lived, and has reached the node for long
// enough.
func (r *run) stayed(o orphan) bool {
	from := o.from
	for again := true; again; {
		again = false
		for _, f := range r.faults {
			hits := (f.node < 0 || f.node == o.node) && (f.client == "" || f.hits(o.client)) && f.name != "lag" && !f.Harmless
			// A client connects again the later the longer it could not: an attempt that a fault holds up takes up to a
			// second, and the pause after one that failed up to 1.5 s.
			over := f.to + min(settling*5/2, settling/5+3*(f.to-f.from))
			if hits && f.from <= from+soon && over > from {
				from, again = over, true
			}
		}
	}
	due := r.excused(o.client, from, soon) + r.slack(o.client, from)
	return o.to > due && due < r.lived(o.client) && !r.unseen(o.node, from, due) && !r.starved(from-settling, due)
}

// useless is since when the keys of a call are of no use any more, and whose process has to delete them. Those of a lock that
// nobody has released expire. What was passed on to nobody that is known is over at once, too.
func (r *run) useless(c *call) (client string, from int64, is bool) {
	l := c.lock
	if l == nil {
		return c.client, c.end.At, true
	}
	for _, over := range slices.Concat(l.unlocks, l.releases) {
		if over.end != nil && l.acquired.begin.MinHold == 0 && (over.ok() || over.begin.Op == history.OpUnlock) {
			return over.client, over.end.At, true
		}
	}
	return "", 0, false
}

// leftBehind looks at the keys that were of no use.
func leftBehind(r *run, f *findings) {
	all, looked := r.orphans()
	f.facts += looked
	for _, o := range all {
		f.violation(place{from: o.from - settling, to: o.to, resource: o.key, clients: []string{o.client}},
			"the key %s of %s was of no use from %s on, and node %d still had it at %s", o.key, o.holder, at(o.from), o.node, at(o.to))
	}
}
