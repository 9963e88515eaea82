package redlock

import (
	"math/rand/v2"
	"time"
)

// announcements are the messages about one release.
type announcements struct {
	digest string
	from   []bool // by node
	nodes  int    // how many
}

// add counts a message of node i, of n, and returns from how many nodes there have been
// some about this release. A message about another one, or a second one of the same
// node, which was passed on, begins another count.
func (s *announcements) add(digest string, i, n int) int {
	if s.digest != digest || s.from[i] {
		*s = announcements{digest: digest, from: make([]bool, n)}
	}
	s.from[i] = true
	s.nodes++
	return s.nodes
}

// hear is told that node i has freed the resource, in the release that digest
// names, and that this process is next in line there.
func (q *queue) hear(i int, key, digest string) {
	q.mu.Lock()
	now := time.Now()
	var w *waiter
	count := 1
	g := q.gates[key]
	if g != nil {
		g.used = now
		count, w = g.heard.add(digest, i, len(q.r.nodes)), g.first()
	}
	need := q.r.need
	use := w != nil && w.head && count <= need
	if use {
		if w.told == nil {
			w.told = make(map[string]string)
		}
		w.told[key] = digest
		w.release(now.Add(grace*time.Duration(need-count)), count < need)
	}
	q.mu.Unlock()
	if !use && count <= need {
		q.r.pass(i, key, digest, w == nil)
	}
}

// release has w try at the given time because of a release; if there may be more
// news by then, not exactly then, or several would meet. queue.mu is held.
func (w *waiter) release(at time.Time, more bool) {
	if more {
		at = at.Add(rand.N(grace))
	}
	if w.tryAt.IsZero() || at.Before(w.tryAt) {
		w.tryAt = at
		w.notify()
	}
}

// gaveWay notes that a release by this process has woken another one: who comes
// next here is to get in line.
func (q *queue) gaveWay(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.sweep(now)
	g := q.gate(key, now)
	g.yield = now.Add(yieldTime)
}

// handOver wakes who waits for the resources here after a release of which no node
// knew whom to tell: there, nobody is in line.
func (q *queue) handOver(keys []any) {
	if q.busy.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.sweep(now)
	for _, key := range keys {
		g := q.gates[key.(string)]
		if g == nil {
			continue
		}
		w := g.first()
		if w == nil || !w.head {
			continue
		}
		w.release(now, false)
	}
}
