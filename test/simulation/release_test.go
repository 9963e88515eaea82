package simulation

import (
	"context"
	"errors"
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
