package simulation

import (
	"time"

	"github.com/seed6c881748/redlock/test/testkit"
)

// In a share of the random seeds nothing that was ever sent can be relied on to
// be over: what a broken connection still delivers comes up to randomLate later, and
// requests run twice. A socket that was closed may go on delivering for more than a
// minute after a partition, and whatever is between client and node may repeat a
// request.
//
// Such a seed takes minutes instead of seconds, in which everybody is slower: locks
// must be held while something late arrives.
//
// What is late must not touch a lock that is held. What arrives behind its token's release is released
// again, unless it comes later than a minute, or was sent twice by what is on the way: then it may stay for
// one ttl.

// randomLate is the longest delay of late bytes and duplicates in such a seed: longer than clients reckon
// with.
const randomLate = 75 * time.Second

// randomCopies is how often a node is sent a request again, at most.
const randomCopies = 3

// beLate makes a plan of late and duplicated requests.
func (r *randomSim) beLate() {
	p, rng := &r.plan, r.rng
	r.late, p.wipe, p.longTTL = true, false, true
	p.phases, p.clients, p.workers = 1, 2, 1+rng.IntN(2)
	p.length, p.storms = testkit.Between(rng, randomLate, 2*randomLate), 1
	p.think = testkit.Pick(rng, time.Second, 10*time.Second)
	p.maxQuiet = testkit.Pick(rng, 5*time.Second, 15*time.Second)
	p.maxFault = testkit.Pick(rng, time.Second, 3*time.Second)
	p.bursts = 0
	if rng.IntN(2) == 0 {
		p.usual = &simCutOff
	}
	r.onRequest = r.repeatAtRandom
}

// setRepeating switches whether requests may run again.
func (r *randomSim) setRepeating(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.repeating = on
}

// repeatAtRandom has some requests run again, and their copies as well.
func (r *randomSim) repeatAtRandom(n *simNode, req *simRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rng := n.requestRand()
	share := 16 // Or the keys of dead tokens would leave little to lock.
	if req.cmd == "EVAL" {
		share = 1 // Looks, and what the server does not know.
	}
	if !r.repeating || rng.IntN(share) > 0 || !n.requests.copy(req, randomCopies) {
		return
	}
	n.sendAgain(req, testkit.Pick(rng, testkit.Between(rng, time.Millisecond, randomLate), testkit.Magnitude(rng, time.Millisecond, randomLate)))
}

// disturb has a node fail, in most cases, until end is called: while a lock is
// asked for, so that a lock is held with a request of unknown outcome, and while it is
// extended, so that every other vote counts.
func (w *randomWorker) disturb(fault simFault) (end func()) {
	s, rng := w.s, w.rng
	if !s.late || rng.IntN(4) == 0 {
		return func() {}
	}
	return testkit.Pick(rng, s.nodes...).suffer(fault, rng)
}

// holdLong extends the lock while things that are late arrive, and looks at it.
func (w *randomWorker) holdLong(l *simLock) {
	for range 2 + w.rng.IntN(14) {
		time.Sleep(testkit.Between(w.rng, 0, 10*time.Second))
		if l.check("held for long") != nil {
			return
		}
		end := w.disturb(simBlackHole)
		w.extendAtRandom(l)
		end()
	}
}
