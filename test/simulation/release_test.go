package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Releases by another process: one process takes a lock and hands it on, another one
// releases it, others wait for it, while connections break, bytes come late and requests
// about the lock come twice. Who waits is told, and no key is left: what a request of the first
// process sets behind the release is released again.
type releaseSim struct {
	*sim

	calm  bool          // no faults, no duplicates
	life  time.Duration // of the lock
	first *simClient    // takes the lock
	l     *simLock

	// Guarded by mu.
	token  string    // of the lock
	copies []int     // requests that were sent again, by node
	taken  time.Time // when the first of those who wait got it
	ended  bool      // they are to stop
}

const (
	// releaseLate is the longest delay of late bytes and of duplicates.
	releaseLate = 70 * time.Second

	// releaseCalm is the time after the last fault within which what can be told is.
	releaseCalm = 10 * time.Second
)

func runRelease(s *sim) {
	rng := s.rng
	s.cluster(testkit.Pick(rng, 1, 2, 3, 3, 3, 4, 5, 5, 6, 7, 9), testkit.Pick(rng, 0, time.Millisecond, 5*time.Millisecond, 20*time.Millisecond))
	r := &releaseSim{sim: s, calm: rng.IntN(4) == 0, life: testkit.Magnitude(rng, 5*time.Second, 2*time.Minute), copies: make([]int, len(s.nodes)), token: "none yet"}
	s.strangers, s.onRequest = true, r.repeatAtRandom
	if !r.calm {
		for _, n := range s.nodes {
			n.Proxy().LateBytes(0, testkit.Magnitude(rng, 10*time.Millisecond, releaseLate))
		}
	}
	if !r.handOn() {
		return
	}
	var wg, faults sync.WaitGroup
	for range 2 {
		c := s.openClient(simOptions{}, redlock.WithRetryCount(-1), redlock.WithRetryDelay(2*time.Second), redlock.WithRetryJitter(0))
		wg.Go(func() { r.contend(&simCaller{s: s, c: c, rng: s.rng, name: c.name}) })
	}
	if !r.calm { // A sleep that ends the lock is nothing of which anybody is told.
		s.moveClocks(releaseCalm, r.life)
	}
	r.disturb(&faults)
	if rng.IntN(3) == 0 {
		faults.Go(func() { _ = r.l.Extend(s.t.Context(), r.life) }) // It should not.
	}
	if rng.IntN(3) == 0 {
		faults.Go(func() { _, _, _ = r.first.close(simUnhurried) })
	}
	r.release()
	faults.Wait()
	if r.calm {
		time.Sleep(500 * time.Millisecond) // Before they would ask of their own accord.
	} else {
		time.Sleep(releaseCalm)
	}
	synctest.Wait()
	r.checkLeft()
	r.checkTold()
	s.awaitLate(releaseLate)
	synctest.Wait()
	r.checkLeft()
	s.mu.Lock()
	r.ended = true
	s.mu.Unlock()
	wg.Wait()
}

// handOn has the first process take the lock, and makes the one that is to release it.
func (r *releaseSim) handOn() bool {
	s, rng := r.sim, r.rng
	kind := testkit.Pick(rng, "plain", "fencing", "owner")
	var opts []redlock.Option
	if kind == "owner" {
		opts = append(opts, redlock.WithOwner("api"))
	}
	r.first = s.openClient(simOptions{fencing: kind == "fencing"}, opts...)
	worker := s.openClient(simOptions{})
	if rng.IntN(2) == 0 || r.calm {
		testkit.Warm(s.t, worker.r)
	}
	s.mu.Lock()
	r.token = ""
	s.mu.Unlock()
	start := time.Now()
	lock, err := r.first.r.TryLock(s.t.Context(), []string{"a", "b"}[:1+rng.IntN(2)], r.life)
	if err != nil {
		s.failf("(6) nothing is wrong yet: %v", err)
		return false
	}
	s.mu.Lock()
	known := r.token == lock.Token()
	s.mu.Unlock()
	if !known {
		s.failf("the simulation repeats requests about another token than the one that is handed on")
		return false
	}
	r.l = r.first.acquired(lock, "the lock", start, simAsk{ttl: r.life})
	r.l.shared = true
	return true
}

// repeatAtRandom has some of the requests about the lock come again, after they were
// carried out.
func (r *releaseSim) repeatAtRandom(n *simNode, req *simRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.token == "" && slices.Contains([]string{"lock", "fencedLock"}, req.script) && slices.Contains(req.keys, "a") {
		r.token = req.token // The first that anybody asks for is the one that is handed on. Warm's may still be on its way.
	}
	about := []string{"lock", "fencedLock", "repair", "unlock", "extend", "raise"}
	if r.calm || req.token != r.token || !slices.Contains(about, req.script) {
		return
	}
	if rng := n.requestRand(); r.copies[n.index] < 4 && rng.IntN(3) == 0 {
		r.copies[n.index]++
		n.sendAgain(req, testkit.Magnitude(rng, time.Millisecond, releaseLate))
	}
}

// disturb does to the nodes' connections what networks do; in calm it waits until the
// others wait.
func (r *releaseSim) disturb(faults *sync.WaitGroup) {
	s := r.sim
	if r.calm {
		time.Sleep(300 * time.Millisecond)
		return
	}
	for _, n := range s.nodes {
		rng := s.newRand()
		w := simWeather{
			faults: simFaults, times: 1 + rng.IntN(4), end: s.start.Add(time.Hour),
			quiet: [2]time.Duration{time.Millisecond, 500 * time.Millisecond}, length: [2]time.Duration{time.Millisecond, 2 * time.Second},
		}
		if rng.IntN(3) > 0 {
			faults.Go(func() { n.endure(w, rng) })
		}
	}
	time.Sleep(testkit.Magnitude(s.rng, time.Millisecond, time.Second))
}

// release releases the lock as a worker does: until it knows the result.
func (r *releaseSim) release() {
	s, l, worker := r.sim, r.l, r.clients[1]
	l.noteHandOver() // It was handed on, and this is its end.
	for first := true; ; first = false {
		ctx, cancel := context.WithCancel(s.t.Context())
		if s.rng.IntN(2) == 0 {
			cancel()
		}
		start := time.Now()
		err := worker.r.Release(ctx, l.Resources(), l.token)
		cancel()
		s.tracef("Release: %v", err)
		if took := time.Since(start); took > testkit.DefaultConnectTimeout+testkit.DefaultNodeTimeout {
			s.failf("(7) Release took %v", took)
		}
		switch {
		case err == nil:
			return
		case errors.Is(err, redlock.ErrLost):
			// Repeated, it may say so of a lock that an earlier call has released.
			if first && time.Now().Before(l.stored(l.Until())) {
				s.failf("(3) the lock was there until %v: %v", s.offset(l.Until()), err)
			}
			return
		case !errors.Is(err, redlock.ErrNoQuorum):
			s.failf("(8) Release: %v", err)
			return
		case r.calm:
			s.failf("(6) nothing is wrong: %v", err)
			return
		}
		time.Sleep(testkit.Magnitude(s.rng, time.Millisecond, time.Second))
	}
}

// contend waits for the lock, holds it for a moment, and waits again.
func (r *releaseSim) contend(w *simCaller) {
	for {
		end := time.Now().Add(5 * time.Second)
		ctx, cancel := context.WithDeadline(r.t.Context(), end)
		l, err := w.acquire(ctx, simAsk{resources: []string{"a"}, ttl: 3 * time.Second, end: end})
		cancel()
		if err == nil {
			r.mu.Lock()
			if r.taken.IsZero() {
				r.taken = time.Now()
			}
			r.mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			_ = w.unlock(r.t.Context(), l)
			time.Sleep(15 * time.Second)
		}
		r.mu.Lock()
		ended := r.ended
		r.mu.Unlock()
		if ended {
			return
		}
	}
}

// checkLeft checks (5): no key of the lock is left but what has come late a moment ago.
func (r *releaseSim) checkLeft() {
	for _, n := range r.nodes {
		for key, state := range n.lockKeys() {
			if state.Value == r.l.token && !n.mayHave(r.l.token) {
				r.failf("(5) %s still has %q, for %v", n.Name(), key, state.TTL)
			}
		}
	}
}

// checkTold checks (9): who waited got the lock; at once if nothing was wrong.
func (r *releaseSim) checkTold() {
	late := 0
	for _, n := range r.nodes {
		if n.mayHave(r.l.token) {
			late++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken.IsZero() && late <= len(r.nodes)-r.need {
		r.failLocked("(9) nobody was told that the lock is free")
	}
}

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
