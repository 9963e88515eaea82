package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Releases whose answers are lost: locks are handed on by their tokens, and the Redlock that took one
// and others release it, again and again and at the same time, before its ttl ends and after, while
// nodes carry out what they are asked and nobody hears of it. Others want the lock all the time. What
// is checked of a Release, against what has reached the nodes during the call:
//
//   - nil: a quorum of nodes had all keys when they were asked to release them, and has them no more;
//     and nobody else has held the lock all the while
//   - ErrLost: so many nodes did not have them that no quorum can have had them
type lostSim struct {
	*sim

	until  time.Time
	handed map[string]*handedOn // by token; guarded by mu
}

// A handedOn is a lock that is released by its token.
type handedOn struct {
	*simLock

	// Guarded by s.mu.
	seen  []lostRequest
	calls map[*simClient]*lostCalls
}

// lostCalls are the calls of one client that are running: they may be one release.
type lostCalls struct {
	running int
	since   time.Time // when the first of them began
}

// A lostRequest is one about such a lock that has reached a node.
type lostRequest struct {
	node    int
	at      time.Time
	release bool // otherwise it may set the keys
	had     bool // the node had all keys
}

func runLostAnswers(s *sim) {
	rng := s.rng
	s.cluster(testkit.Pick(rng, 1, 2, 3, 3, 3, 4, 5, 5, 6, 7, 9), testkit.Pick(rng, 0, time.Millisecond, 5*time.Millisecond))
	r := &lostSim{sim: s, until: s.start.Add(testkit.Between(rng, 300*time.Millisecond, 2*time.Second)), handed: map[string]*handedOn{}}
	s.strangers, s.onRequest = true, r.onRequest
	s.makeFaulty(testkit.Pick(rng, len(s.nodes)-s.need, len(s.nodes), rng.IntN(len(s.nodes)+1)))
	late := rng.IntN(2) == 0
	for _, n := range s.nodes {
		if late {
			n.Proxy().LateBytes(0, testkit.Magnitude(rng, 10*time.Millisecond, simMaxLate))
		}
		if own := s.newRand(); n.faulty {
			s.wg.Go(func() { n.endure(r.weather(), own) })
		}
	}
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
}

// weather has every other fault be that answers are lost.
func (r *lostSim) weather() simWeather {
	return simWeather{
		faults: simFaults, usual: &simMute, end: r.until,
		quiet: [2]time.Duration{time.Millisecond, 300 * time.Millisecond}, length: [2]time.Duration{time.Millisecond, 500 * time.Millisecond},
	}
}

// lock asks for a lock, and does not wait for ever.
func (r *lostSim) lock(w *simCaller, ttl time.Duration) *simLock {
	end := time.Now().Add(time.Second)
	ctx, cancel := context.WithDeadline(r.t.Context(), end)
	defer cancel()
	l, _ := w.acquire(ctx, simAsk{resources: testkit.Pick(w.rng, []string{"a"}, []string{"a", "b"}), ttl: ttl, end: end})
	return l
}

// contend takes the lock as soon as it can, and holds it for a moment.
func (r *lostSim) contend(w *simCaller) {
	for time.Now().Before(r.until) && !r.failed() {
		time.Sleep(testkit.Magnitude(w.rng, time.Millisecond, 200*time.Millisecond))
		if l := r.lock(w, 2*time.Second); l != nil {
			time.Sleep(testkit.Magnitude(w.rng, time.Millisecond, 500*time.Millisecond))
			_ = w.unlock(r.t.Context(), l)
		}
	}
}

// handOn takes locks that others release.
func (r *lostSim) handOn(w *simCaller) {
	for time.Now().Before(r.until) && !r.failed() {
		time.Sleep(testkit.Magnitude(w.rng, time.Millisecond, 100*time.Millisecond))
		ttl := testkit.Magnitude(w.rng, 100*time.Millisecond, 5*time.Second)
		l := r.lock(w, ttl)
		if l == nil {
			continue
		}
		h := &handedOn{simLock: l, calls: map[*simClient]*lostCalls{}}
		r.mu.Lock()
		r.handed[l.token] = h
		r.mu.Unlock()
		time.Sleep(testkit.Magnitude(w.rng, time.Millisecond, testkit.Pick(w.rng, ttl/10, ttl/10, 3*ttl/2)))
		l.noteHandOver()
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
func (r *lostSim) release(w *simCaller, h *handedOn) {
	for range 1 + w.rng.IntN(6) {
		time.Sleep(testkit.Pick(w.rng, 0, testkit.Magnitude(w.rng, time.Millisecond, 300*time.Millisecond)))
		ctx, cancel := context.WithCancel(r.t.Context())
		if w.rng.IntN(2) == 0 {
			cancel() // It must have no effect.
		}
		start := time.Now()
		since, end := h.begin(w.c, start)
		err := w.c.r.Release(ctx, h.Resources(), h.token)
		cancel()
		end()
		r.tracef("%s Release, begun at %v: %v", w.name, r.offset(start), err)
		w.checkEnd("Release", start, testkit.DefaultConnectTimeout+w.c.timeout, time.Time{}, false)
		r.checkRelease(w, h, err, since)
		if (err == nil || errors.Is(err, redlock.ErrLost)) && w.rng.IntN(2) == 0 {
			return
		}
	}
}

// begin notes that a call begins. It returns when the release may have begun that the call takes part in, and
// what notes the call's end.
func (h *handedOn) begin(c *simClient, now time.Time) (since time.Time, end func()) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	calls := h.calls[c]
	if calls == nil || calls.running == 0 {
		calls = &lostCalls{since: now}
		h.calls[c] = calls
	}
	calls.running++
	return calls.since, func() {
		h.s.mu.Lock()
		defer h.s.mu.Unlock()
		calls.running--
	}
}

// onRequest notes what reaches a node about a lock that was handed on.
func (r *lostSim) onRequest(n *simNode, req *simRequest) {
	r.mu.Lock()
	h := r.handed[req.token]
	r.mu.Unlock()
	release := req.script == "unlock"
	if h == nil || !release && !req.sets() {
		return
	}
	seen := lostRequest{n.index, time.Now(), release, n.has(h.simLock)}
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
			crowded := slices.ContainsFunc(h.seen, func(o lostRequest) bool { return o.node == q.node && o.at.Equal(q.at) && o != h.seen[i] }) ||
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
func (r *lostSim) checkRelease(w *simCaller, h *handedOn, err error, start time.Time) {
	s, now := r.sim, time.Now()
	_, reason := w.quorumError("Release", err, redlock.OpRelease, h.Resources(), 0)
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
func (r *lostSim) checkGone(h *handedOn, start, now time.Time) {
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
