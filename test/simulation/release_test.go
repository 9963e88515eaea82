package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing/synctest"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Releases by other processes: locks are handed on by their tokens, and the Redlock that took one and others release it,
// again and again and at the same time, before its ttl ends and after, while nodes carry out what they are asked and
// nobody hears of it, connections break, bytes come late and requests come twice. Others want the locks all the time.
// No key is left in the end: what a request of the first process sets behind the release is released again. What is
// checked of a Release, against what has reached the nodes during the call:
//
//   - nil: a quorum of nodes had all keys when they were asked to release them, and has them no more; and nobody else
//     has held the lock all the while
//   - ErrLost: so many nodes did not have them that no quorum can have had them
type releaseSim struct {
	*sim

	until time.Time
	late  time.Duration // bytes and duplicates come up to so late

	handed map[string]*handedOn // by token; guarded by mu, as is
	asked  map[string][]func()  // what has a request for a lock come again, by token
}

// releaseLate is the longest delay of late bytes and of duplicates: longer than clients reckon with.
const releaseLate = 70 * time.Second

func runRelease(s *sim) {
	rng := s.rng
	s.cluster(testkit.Pick(rng, 1, 2, 3, 3, 3, 4, 5, 5, 6, 7, 9), testkit.Pick(rng, 0, time.Millisecond, 5*time.Millisecond))
	r := &releaseSim{sim: s, handed: map[string]*handedOn{}, asked: map[string][]func(){}}
	r.until = s.start.Add(testkit.Between(rng, 300*time.Millisecond, 2*time.Second))
	r.late = testkit.Pick(rng, 0, simMaxLate, releaseLate)
	s.strangers, s.onRequest = true, r.onRequest
	s.makeFaulty(testkit.Pick(rng, len(s.nodes)-s.need, len(s.nodes), rng.IntN(len(s.nodes)+1)))
	for _, n := range s.nodes {
		if r.late > 0 {
			n.Proxy().LateBytes(0, testkit.Magnitude(rng, 10*time.Millisecond, r.late))
		}
	}
	losing := weather(simFaults, 300*time.Millisecond, 500*time.Millisecond, r.until)
	losing.usual = &simMute // Answers are lost.
	s.endure(&s.wg, losing)
	for i := range 2 + rng.IntN(2) {
		o := simOptions{timeout: testkit.Pick(rng, simTimeouts...), fencing: rng.IntN(4) == 0}
		c := s.openClient(o, redlock.WithRetryCount(-1), redlock.WithRetryDelay(testkit.Pick(rng, 20*time.Millisecond, time.Second)))
		w := &simCaller{s: s, c: c, rng: s.newRand(), name: c.name}
		if i == 0 || rng.IntN(2) == 0 {
			s.wg.Go(func() { r.handOn(w) })
		}
		contender := &simCaller{s: s, c: c, rng: s.newRand(), name: c.name + ".1"}
		s.wg.Go(func() { r.contend(contender) })
	}
	s.moveClocks(time.Until(r.until), time.Second)
	s.wg.Wait()
	s.endDelays()
	s.recover()
	s.again.Wait()
	if r.late > 0 { // What comes late is gone again.
		time.Sleep(r.late + node.MinLate)
		synctest.Wait()
		s.checkLeftovers()
	}
}

// A handedOn is a lock that is released by its token.
type handedOn struct {
	*simLock

	// Guarded by s.mu.
	seen  []releaseRequest
	calls map[*simClient]time.Time // when a client was first asked to release it: later calls may be a part of that
}

// A releaseRequest is one about such a lock that has reached a node.
type releaseRequest struct {
	node    int
	at      time.Time
	release bool // otherwise it may set the keys
	had     bool // the node had all keys
}

// lock asks for a lock, and does not wait for ever.
func (r *releaseSim) lock(w *simCaller, ttl time.Duration) *simLock {
	end := time.Now().Add(time.Second)
	ctx, cancel := context.WithDeadline(r.t.Context(), end)
	defer cancel()
	l, _ := w.acquire(ctx, simAsk{resources: testkit.Pick(w.rng, []string{"a"}, []string{"a", "b"}), ttl: ttl, end: end})
	return l
}

// contend takes the lock as soon as it can, and holds it for a moment.
func (r *releaseSim) contend(w *simCaller) {
	for time.Now().Before(r.until) && !r.failed() {
		time.Sleep(testkit.Magnitude(w.rng, time.Millisecond, 200*time.Millisecond))
		if l := r.lock(w, 2*time.Second); l != nil {
			time.Sleep(testkit.Magnitude(w.rng, time.Millisecond, 500*time.Millisecond))
			_ = w.unlock(r.t.Context(), l)
		}
	}
}

// handOn takes locks that others release.
func (r *releaseSim) handOn(w *simCaller) {
	for time.Now().Before(r.until) && !r.failed() {
		time.Sleep(testkit.Magnitude(w.rng, time.Millisecond, 100*time.Millisecond))
		ttl := testkit.Magnitude(w.rng, 100*time.Millisecond, 5*time.Second)
		l := r.lock(w, ttl)
		if l == nil {
			continue
		}
		h := &handedOn{simLock: l, calls: map[*simClient]time.Time{}}
		r.mu.Lock()
		r.handed[l.token] = h
		for _, again := range r.asked[l.token] {
			again()
		}
		r.mu.Unlock()
		time.Sleep(testkit.Magnitude(w.rng, time.Millisecond, testkit.Pick(w.rng, ttl/10, ttl/10, 3*ttl/2)))
		l.mu.Lock()
		l.released, l.handedOn = time.Now(), true
		l.mu.Unlock()
		for i := range 1 + w.rng.IntN(3) {
			by := &simCaller{
				s: r.sim, c: testkit.Pick(w.rng, r.clients...), rng: rand.New(rand.NewPCG(w.rng.Uint64(), 0)),
				name: fmt.Sprintf("%s.r%d", l.name, i+1),
			}
			r.wg.Go(func() { r.release(by, h) })
		}
		time.Sleep(testkit.Magnitude(w.rng, time.Millisecond, time.Second))
	}
}

// release releases a lock several times, also once its end is known.
func (r *releaseSim) release(w *simCaller, h *handedOn) {
	for range 1 + w.rng.IntN(6) {
		time.Sleep(testkit.Pick(w.rng, 0, testkit.Magnitude(w.rng, time.Millisecond, 300*time.Millisecond)))
		ctx, cancel := context.WithCancel(r.t.Context())
		if w.rng.IntN(2) == 0 {
			cancel() // It must have no effect.
		}
		start := time.Now()
		since := h.begin(w.c, start)
		err := w.c.r.Release(ctx, h.Resources(), h.token)
		cancel()
		r.tracef("%s Release, begun at %v: %v", w.name, r.offset(start), err)
		w.checkEnd("Release", start, testkit.DefaultConnectTimeout+w.c.timeout, time.Time{}, false)
		r.checkRelease(w, h, err, since)
		if (err == nil || errors.Is(err, redlock.ErrLost)) && w.rng.IntN(2) == 0 {
			return
		}
	}
}

// begin notes that a call begins, and returns when the release may have begun that it takes part in.
func (h *handedOn) begin(c *simClient, now time.Time) (since time.Time) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if _, known := h.calls[c]; !known {
		h.calls[c] = now
	}
	return h.calls[c]
}

// onRequest notes what reaches a node about a lock that was handed on.
func (r *releaseSim) onRequest(n *simNode, req *simRequest) {
	r.mu.Lock()
	h := r.handed[req.token]
	switch again := func() { n.sendAgain(req, 3, 1, r.late) }; {
	case r.late == 0:
	case h != nil:
		again()
	case req.sets():
		r.asked[req.token] = append(r.asked[req.token], again)
	}
	r.mu.Unlock()
	release := req.script == "unlock"
	if h == nil || !release && !req.sets() {
		return
	}
	seen := releaseRequest{n.index, time.Now(), release, n.has(h.simLock)}
	r.mu.Lock()
	defer r.mu.Unlock()
	h.seen = append(h.seen, seen)
}

// answers returns how many nodes may have said since start that they had the lock, and how many that
// they had not. Of requests that came at the same instant, nobody knows which was the first.
func (h *handedOn) answers(start time.Time) (yes, no int) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	for _, n := range h.s.nodes {
		var had, hadNot bool
		for i, q := range h.seen {
			if q.node != n.index || !q.release || q.at.Before(start) {
				continue
			}
			crowded := slices.ContainsFunc(h.seen, func(o releaseRequest) bool { return o.node == q.node && o.at.Equal(q.at) && o != h.seen[i] }) ||
				slices.Index(h.seen, q) != i
			had, hadNot = had || q.had || crowded, hadNot || !q.had || crowded
		}
		if had {
			yes++
		}
		if hadNot {
			no++
		}
	}
	return yes, no
}

// checkRelease checks what a Release has said that may have begun at start.
func (r *releaseSim) checkRelease(w *simCaller, h *handedOn, err error, start time.Time) {
	s, now := r.sim, time.Now()
	reason := w.quorumError("Release", err, redlock.OpRelease, h.Resources())
	yes, no := h.answers(start)
	switch {
	case err == nil:
		if yes < s.need {
			s.failf("(8) Release of %s is nil, but only %d of %d nodes had it", h.name, yes, len(s.nodes))
		}
		r.checkGone(h, start, now)
	case same(reason, redlock.ErrLost):
		if no <= len(s.nodes)-s.need {
			s.failf("(8) Release of %s: %v, but only %d of %d nodes did not have it", h.name, err, no, len(s.nodes))
		}
	case !same(reason, redlock.ErrNoQuorum):
		s.failf("(8) Release of %s: %v", h.name, err)
	}
}

// checkGone checks that a Release that is nil has ended the lock, and its own: from its call to its
// return nobody else held it.
func (r *releaseSim) checkGone(h *handedOn, start, now time.Time) {
	left := 0
	for _, n := range r.nodes {
		if n.hasAny(h.simLock) && !n.mayHave(h.token) {
			left++
		}
	}
	if left > len(r.nodes)-r.need {
		r.failf("(5) Release of %s is nil, but %d nodes have its keys", h.name, left)
	}
	for _, other := range r.allLocks() {
		shares := slices.ContainsFunc(other.keys, func(key string) bool { return slices.Contains(h.keys, key) })
		if other != h.simLock && shares && other.from.Before(start) && other.heldTo().After(now) {
			r.failf("(1) Release of %s is nil, but %s is held from %v to %v", h.name, other.name, r.offset(other.from), r.offset(other.heldTo()))
		}
	}
}
