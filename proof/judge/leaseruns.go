package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// leaseModel has Porcupine look for an order of the calls on each resource. A call is an operation on each of its
// resources. Refusals are left out: that a lock is refused although nobody has it breaks no promise, and what a refused
// or a cut-off attempt has left on nodes gives nobody a lock.
func leaseModel(r *run, f *findings) {
	deadline := time.Now().Add(r.modelTime)
	clients := make(clientNumbers)
	for _, res := range r.resources {
		checkModel(f, "lease model", res, leasePieces(r, res, clients), deadline)
	}
}

// leasePieces cuts the locks on a resource where all locks are over, and no call on any of them is still to come.
func leasePieces(r *run, res string, clients clientNumbers) []piece {
	var lives []life
	for _, l := range r.byResource[res] {
		lives = append(lives, r.life(l, clients))
	}
	slices.SortStableFunc(lives, func(a, b life) int { return cmp.Compare(a.from, b.from) })
	var pieces []piece
	p := piece{model: leaseFrom(leaseState{})}
	to, fence := int64(-1), int64(0)
	for i, l := range lives {
		if l.from > to && len(p.operations) >= minPiece {
			pieces = append(pieces, p)
			p = piece{model: leaseFrom(leaseState{fence: fence})}
		}
		p.operations = append(p.operations, l.operations...)
		to, fence = max(to, l.to), max(fence, l.fence)
		if i+1 == len(lives) {
			pieces = append(pieces, p)
		}
	}
	return pieces
}

// A life is all that happens to a lock.
type life struct {
	from, to   int64
	fence      int64
	operations []porcupine.Operation
}

// life lists the operations of a lock: it is acquired within its call and before Until; it is extended; and it ends by
// the first of what may end it. Its end at Until is an operation, too.
func (r *run) life(l *lock, clients clientNumbers) life {
	v := life{from: l.asked, to: l.asked}
	if r.fenceOrder {
		v.fence = l.fence
	}
	add := func(client string, from, to int64, in leaseInput) {
		in.lock, in.name = l.number, l.String()
		to = max(from, to)
		v.operations = append(v.operations, porcupine.Operation{
			ClientId: clients.of(client), Call: from, Return: to, Input: in,
			Metadata: [2]int{l.number, len(v.operations)},
		})
		v.to = max(v.to, to)
	}
	// Until counts with the slack that clocks have, for the holder as well as for those who come after.
	lapse := max(l.asked, l.until-r.header.OverlapSlack)
	add(l.client, l.asked, min(l.got, lapse), leaseInput{op: acquire, fence: v.fence, succeeded: true})
	ended := false // for sure, before Until
	for _, c := range l.extends {
		switch {
		case c.ok():
			add(c.client, c.begin.At, c.end.At, leaseInput{op: extend, succeeded: true, proves: l.exact && !l.releasedBy(c.end.At)})
		case c.lost():
			add(c.client, c.begin.At, c.end.At, leaseInput{op: loss})
			ended = ended || c.end.At <= lapse
		}
	}
	if l.lost != nil && l.lost.Outcome == "" || l.gone() {
		add(l.client, l.lost.At, l.lost.At, leaseInput{op: loss})
		ended = ended || l.lost.At <= lapse
	}
	for i, c := range slices.Concat(l.unlocks, l.releases) {
		in := leaseInput{op: release, succeeded: c.ok(), proves: c.ok() && r.provesRelease(l, c)}
		if i < len(l.unlocks) {
			in.op, in.proves = unlock, c.ok() && l.provesUnlock(i)
		}
		until := max(lapse, c.begin.At) // If it has not returned, it may have an effect until then.
		if c.end != nil {
			until = c.end.At
		}
		add(c.client, c.begin.At, until, in)
		ended = ended || c.end != nil && until <= lapse
	}
	if !ended {
		add(l.client, lapse, l.until+r.header.OverlapSlack, leaseInput{op: expire})
	}
	return v
}

// provesUnlock reports whether a nil of this Unlock shows that the lock was held when it began: it was the first one (a
// further one returns what has become of the release); nobody else may have released the lock, of which the holder would
// not know; and it is known when the lock ended.
func (l *lock) provesUnlock(i int) bool {
	return i == 0 && l.exact && !l.releasedBy(l.unlocks[i].end.At) && (l.lost == nil || l.lost.Outcome != "")
}

// releasedBy reports whether somebody had begun to release the lock by its token.
func (l *lock) releasedBy(t int64) bool {
	return slices.ContainsFunc(l.releases, func(c *call) bool { return c.begin.At <= t })
}

// provesRelease reports whether a nil of this Release shows that the lock was still on the nodes. Simultaneous calls in
// one process are one release, so the later one of them shows nothing.
func (r *run) provesRelease(l *lock, c *call) bool {
	for _, other := range l.releases {
		if other == c {
			return true
		}
		if other.client == c.client && other.returned(r) >= c.begin.At {
			return false
		}
	}
	return true
}
