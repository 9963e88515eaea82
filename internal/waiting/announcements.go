package waiting

import (
	"slices"
	"time"
)

// announcements are the messages about one release.
type announcements struct {
	digest string
	from   []bool // by node
	nodes  int    // how many
	used   bool   // a waiter has been told of the release: messages that come later are of no interest
}

// add counts a message of node i, of n nodes, and returns how many nodes have announced this release. A message about
// another release begins a new count. So does a second message of the same node: the first one was passed on.
func (a *announcements) add(digest string, i, n int) int {
	if a.digest != digest || a.from[i] {
		*a = announcements{digest: digest, from: make([]bool, n)}
	}
	a.from[i] = true
	a.nodes++
	return a.nodes
}

// Hear is told that node i has freed the resource, in the release that digest
// names, and that this process is next in line there.
func (q *Queue) Hear(i int, key, digest string, now time.Time) {
	var w *Waiter
	count := 1
	g := q.byKey[key]
	if g != nil {
		g.used = now
		count, w = g.heard.add(digest, i, q.nodes), g.first()
	}
	use := w != nil && w.head && count <= q.need
	switch {
	case use:
		g.heard.used, g.notified = true, digest
		at := now.Add(grace * time.Duration(q.need-count))
		if count < q.need { // There may be more news by then: not exactly then, or several would meet.
			at = at.Add(q.random(grace))
		}
		w.wakeAt(at)
	case g == nil || !g.heard.used:
		q.passes = append(q.passes, Pass{i, key, digest, w == nil})
	}
}

// HearLate is Hear for a node that is much slower than a quorum of others. Usually somebody else has had the resource since,
// and an attempt would only disturb the waiters that are next. So the message counts only if other nodes have announced
// the same release.
func (q *Queue) HearLate(i int, key, digest string, now time.Time) {
	switch g := q.byKey[key]; {
	case g != nil && g.heard.digest == digest:
		q.Hear(i, key, digest, now)
	case g == nil || g.line.Len() == 0:
		q.passes = append(q.passes, Pass{i, key, digest, true})
	}
}

// wakeAt has w try at the given time because of a release.
func (w *Waiter) wakeAt(at time.Time) {
	if w.tryAt.IsZero() || at.Before(w.tryAt) {
		w.tryAt = at
		w.notify()
	}
}

// GaveWay notes that a release by this process has woken another one, or could wake nobody: who comes next here is to
// get in line. Until a release finds nobody in line, more processes want the resource, and one that asks at once, as
// it comes back from other work, would meet it free but reserved as often as not.
func (q *Queue) GaveWay(key string, now time.Time) {
	q.sweep(now)
	q.of(key, now).yield = now.Add(linger)
}

// HandOver wakes a waiter here after a release for which no node had anybody in line. From then on a newcomer
// asks the nodes at once again.
func (q *Queue) HandOver(keys []any, now time.Time) {
	q.sweep(now)
	for _, key := range keys {
		g := q.byKey[key.(string)]
		if g == nil {
			continue
		}
		g.yield = time.Time{}
		if w := g.first(); w != nil && w.head {
			w.wakeAt(now)
		}
	}
}

// Refused notes how the attempt of a head has failed, for those behind it: with answer, nil if it was cut short, and
// by which holder, if that is known. A release that it was told of may have been of no use to it because of another
// of its resources. It keeps what it was told of for a moment, and with it its place in that line: where others use
// each of the resources all the time, it would never find all of them free. But it does so once for each holder that
// it waits for, or one that waits for a lock that is held for long would hold up everybody else.
func (q *Queue) Refused(w *Waiter, answer error, holder string, now time.Time) {
	q.Remember(w, answer, now)
	switch {
	case answer == nil || !w.tryAt.IsZero():
	case len(w.keys) == 1:
		q.byKey[w.keys[0]].notified = ""
	case !q.isNotified(w) || !w.keepUntil.IsZero():
	case holder == w.keptFor:
		q.PassOn(w)
	default:
		w.keptFor, w.keepUntil = holder, now.Add(KeepTime)
	}
}

// PassOn tells the next in line of all that w was told of.
func (q *Queue) PassOn(w *Waiter) {
	w.keepUntil = time.Time{}
	for _, key := range w.keys {
		if g := q.byKey[key]; g.notified != "" {
			q.pass(key, g.notified, false)
			g.notified = ""
		}
	}
}

// isNotified reports whether a release was announced to w, a head, or to an earlier waiter whose place w took.
func (q *Queue) isNotified(w *Waiter) bool {
	return slices.ContainsFunc(w.keys, func(key string) bool { return q.byKey[key].notified != "" })
}

// pass tells the next processes in line of a release, on all nodes.
func (q *Queue) pass(key, digest string, leave bool) {
	for i := range q.nodes {
		q.passes = append(q.passes, Pass{i, key, digest, leave})
	}
}
