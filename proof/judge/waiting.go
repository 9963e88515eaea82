package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

const (
	// nextWithin is how long a released lock may be free while somebody waits for it and nothing is wrong: some timed
	// retries, for messages that are lost.
	nextWithin = int64(time.Second)
	// mostWithin is how long it may be free in half of the cases, besides two calls of TryLock that succeed: less than
	// those need who are not told of the release.
	mostWithin = int64(20 * time.Millisecond)
	// inLineFor is how long a call must have waited, to be in line on the nodes.
	inLineFor = int64(50 * time.Millisecond)
	// enough are so many that chance does not make a third of them what would be three quarters.
	enough = 15
)

// nextInLine looks at releases while others wait: the next one has the lock soon, mostly within some round trips.
func nextInLine(r *run, f *findings) {
	var took []int64
	var last *call
	firsts, known := 0, 0
	for _, c := range r.inOrder {
		l := r.lockOf(c.begin)
		if l == nil || !c.ok() || c.begin.Op != history.OpUnlock || c != l.unlocks[0] || len(l.resources) > 1 || l.acquired.begin.MinHold > 0 {
			continue
		}
		res := l.resources[0]
		free, next := r.freeFrom(res, c.begin.At)
		if first, is := r.first(res, c, next); is {
			if known, last = known+1, c; first {
				firsts++
			}
		}
		waiter := r.waitsFor(res, c)
		if waiter == nil || l.over < c.begin.At {
			continue
		}
		if next != nil && next.acquired.begin.At > c.begin.At && free <= nextWithin {
			continue // Somebody who had just come was faster.
		}
		f.facts++
		if !r.alsoWaitsAt(c, res) { // A process hands over to its own by itself.
			took, last = append(took, free), c
		}
		if due := r.excused(waiter.client, c.begin.At, nextWithin) + r.slack(waiter.client, c.end.At); c.begin.At+free > due {
			f.violation(place{from: c.begin.At, to: due, resource: res, clients: []string{c.client, waiter.client}},
				"%s released %s, for which %s waited, and nobody had it before %s", c, res, waiter, at(c.begin.At+free))
		}
	}
	if half := mostWithin + 2*r.usualTry(); len(took) >= 10 && median(took) > half {
		f.violation(place{from: last.begin.At, to: last.end.At}, "half of the %d released locks that other processes waited for were free for %s or more; with "+
			"messages it would be %s at most", len(took), span(0, median(took)), span(0, half))
	}
	if known >= enough {
		if f.facts++; firsts < known/3 {
			f.violation(place{from: last.begin.At, to: last.end.At}, "of %d released locks for which several other processes waited, "+
				"%d went to the one that had waited longest: it should be most of them", known, firsts)
		}
	}
}

// first reports whether a released lock went to that of several other processes in line which had waited longest; it is not
// known where something was wrong.
func (r *run) first(res string, release *call, next *lock) (first, known bool) {
	if next == nil || r.disturbed(release.begin.At, next.got) {
		return false, false
	}
	var oldest *call
	others := make(map[string]bool)
	for _, w := range r.waiting[res] {
		inLine := w.end != nil && w.wait < release.begin.At-inLineFor && (w == next.acquired || w.end.At > next.got+inLineFor)
		if !inLine || w.begin.Polls || r.process(w.client).deaf || w.client == release.client {
			continue
		}
		if len(w.begin.Resources) > 1 || !r.healthy(w.client, release.begin.At-settling, next.got) {
			return false, false
		}
		others[w.client] = true
		if oldest == nil || w.begin.At < oldest.begin.At {
			oldest = w
		}
	}
	return oldest != nil && oldest.client == next.client, others[next.client] && len(others) > 1
}

// waitsFor is a call that waits for a resource when it is released, and long enough after; nil if none is known.
func (r *run) waitsFor(res string, release *call) *call {
	from, to := release.begin.At, release.end.At+nextWithin
	return r.waits(res, from, to, func(w *call) bool {
		return w.end.At > from && (w.ok() || w.end.At > to) && r.healthy(release.client, from, to)
	})
}

// waits is such a call that is in line from then on, with everything well; nil if there is none, or if one for several
// resources may hold it up.
func (r *run) waits(res string, from, to int64, is func(w *call) bool) *call {
	if r.disturbed(from, to) {
		return nil
	}
	if slices.ContainsFunc(r.waiting[res], func(w *call) bool {
		return len(w.begin.Resources) > 1 && w.begin.At < to && w.returned(r) > from
	}) {
		return nil
	}
	for _, w := range r.waiting[res] {
		if w.end != nil && w.wait < from-inLineFor && !w.begin.Polls && !r.process(w.client).deaf && is(w) && r.healthy(w.client, from, to) && r.ran(w.client, from, to) {
			return w
		}
	}
	return nil
}

// alsoWaitsAt reports whether a call of the same process wanted the resource before somebody got it.
func (r *run) alsoWaitsAt(release *call, res string) bool {
	free, _ := r.freeFrom(res, release.begin.At)
	return slices.ContainsFunc(r.waiting[res], func(w *call) bool {
		return w.client == release.client && w.begin.At < release.begin.At+free && w.returned(r) > release.begin.At
	})
}

// freeFrom is for how long from then on nobody got the resource, and who got it.
func (r *run) freeFrom(res string, from int64) (int64, *lock) {
	locks := r.byResource[res]
	i, _ := slices.BinarySearchFunc(locks, from, func(l *lock, t int64) int { return cmp.Compare(l.got, t) })
	if i == len(locks) {
		return r.end - from, nil
	}
	return locks[i].got - from, locks[i]
}

// usualTry is how long half of the calls took that got a lock without waiting.
func (r *run) usualTry() int64 {
	var all []int64
	for _, c := range r.inOrder {
		if c.begin.Op == history.OpTryLock && c.ok() {
			all = append(all, c.end.At-c.begin.At)
		}
	}
	return median(all)
}

func median(all []int64) int64 {
	if len(all) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(all))[len(all)/2]
}

// waiters compares calls of Lock of one process that want one and the same resource. If one was in line when another came,
// which has got the lock, then the first one got it first, or had given up by then.
//
// That holds as long as the nodes answer those in line: a call that has not heard of an answer to the others for too long asks
// for itself. And a call for several resources holds up the others. Processes may overtake each other.
func waiters(r *run, f *findings) {
	for _, res := range r.resources {
		for _, l := range r.byResource[res] {
			c, from := l.acquired, l.asked-r.answered(l.acquired)
			if c.wait == 0 || c.begin.Polls || !r.healthy(c.client, from, l.got) || !r.ran(c.client, from, l.got) {
				continue
			}
			last := r.inLineBefore(c, res)
			if last == nil {
				continue
			}
			f.facts++
			if l.got < r.left(last) {
				p := place{from: last.begin.At, to: last.end.At, resource: res, clients: []string{c.client}}
				f.violation(p, "%s waited from %s to %s; %s came at %s, and got the lock at %s", last, at(last.wait),
					at(last.end.At), c, at(c.begin.At), at(l.got))
			}
		}
	}
}

// inLineBefore is the call of the same process that left the line last, of those that were in it when c came; nil if there
// was none, or one for several resources.
func (r *run) inLineBefore(c *call, res string) (last *call) {
	for _, w := range r.waiting[res] {
		if w.client != c.client || w.end == nil || w.begin.Polls || w.begin.At >= c.end.At || w.end.At <= c.begin.At {
			continue
		}
		if len(w.begin.Resources) > 1 {
			return nil
		}
		if w.wait < c.begin.At && r.left(w) > c.begin.At && (last == nil || r.left(w) > r.left(last)) {
			last = w
		}
	}
	return last
}

// left is until when a call was in line for sure. One that gives up is not, for a while before it returns.
func (r *run) left(c *call) int64 {
	if c.ok() {
		return c.end.At
	}
	return c.end.At - r.answered(c)
}

// answered is how long nodes may take to answer a call that waits.
func (r *run) answered(c *call) int64 { return 2 * max(c.begin.NodeTimeout, r.nodeTimeout()) }

func (r *run) nodeTimeout() int64 {
	if d, err := time.ParseDuration(r.header.Settings["node timeout"]); err == nil {
		return int64(d)
	}
	return int64(250 * time.Millisecond)
}
