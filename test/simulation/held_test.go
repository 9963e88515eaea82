package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing/synctest"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Held locks: a few locks are kept by KeepAlive and by Do while nodes hang, die, come
// back, are slow or lose keys, and are ended by Unlock, Close, the caller's context, the
// max hold or a jump of the wall clock. The end of every hold context is compared to the
// nanosecond with what must have ended it. What is checked of promise (4) here:
//
//   - a hold context never ends later than the lock's Until, nor without the reason that
//     its cause names
//   - the Until of a lock that has ended never moves, and it is never created again
//
// and of promise (6): while a quorum of nodes is well and nobody ends the lock, it goes on.
//
// A node that is not faulty is never late and never loses a key, but may forget the scripts.
type heldSim struct {
	*sim

	ttl     time.Duration // the scale of the run: ttls are once to twice that
	timeout time.Duration // the shortest node timeout
	settle  time.Duration // within which a healthy node has answered all that was sent to it
	span    time.Duration // for which things happen
	shared  bool          // the locks want the same resources
	outage  heldOutage
	held    map[string]*heldLock // by token; guarded by mu
}

// heldLate is the longest delay of bytes that are delivered after their connection has
// broken.
const heldLate = 500 * time.Millisecond

func runHeld(s *sim) {
	h := &heldSim{sim: s, held: map[string]*heldLock{}}
	h.prepare()
	s.tracef("%d nodes, ttl %v, timeout %v, settle %v, span %v, loss %v, shared %v",
		len(s.nodes), h.ttl, h.timeout, h.settle, h.span, s.loss, h.shared)
	for i := range testkit.Pick(s.rng, 1, 1, 2, 3) {
		a := &heldActor{simCaller{s: s, c: testkit.Pick(s.rng, s.clients...), rng: s.newRand(), name: fmt.Sprintf("lock%d", i+1)}, h}
		s.wg.Go(a.run)
	}
	s.moveClocks(h.span, 2*h.ttl)
	for _, c := range s.clients {
		h.happen(c, s.newRand())
	}
	for _, n := range s.nodes {
		rng := s.newRand()
		s.wg.Go(func() { h.failAtRandom(n, rng) })
	}
	s.wg.Wait()
	h.finish()
}

func (h *heldSim) prepare() {
	s, rng := h.sim, h.rng
	n := testkit.Pick(rng, 3, 3, 3, 3, 5, 5, 5, 1, 2, 4, 6, 7, 9)
	h.ttl = testkit.Magnitude(rng, 30*time.Millisecond, 5*time.Second)
	h.timeout = testkit.Pick(rng, 20*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond)
	hang := rng.IntN(4) == 0
	if hang && rng.IntN(2) == 0 {
		h.ttl = testkit.Between(rng, 30*time.Millisecond, 3*h.timeout) // So that extensions are on their way when it ends.
	}
	s.cluster(n, testkit.Pick(rng, 0, min(h.ttl/60, h.timeout/20)))
	h.settle = s.nodes[0].settle()
	h.span = testkit.Between(rng, h.ttl, testkit.Pick[time.Duration](rng, 4, 4, 12)*h.ttl)
	h.shared = rng.IntN(2) == 0
	s.loss = rng.IntN(2) == 0
	s.excuse = true
	s.slowest = []time.Duration{h.ttl / 100, h.ttl / 10, h.ttl}
	s.onRequest = h.onRequest
	spare := n - s.need
	faulty := testkit.Pick(rng, 0, rng.IntN(spare+1), rng.IntN(spare+1), spare, rng.IntN(n+1))
	if hang {
		faulty = 0 // All hang at the same time, and have no other faults.
		h.planOutage()
	}
	s.makeFaulty(faulty)
	if rng.IntN(3) == 0 {
		for _, n := range s.nodes {
			if n.faulty {
				n.Proxy().LateBytes(0, heldLate)
			}
		}
	}
	for range testkit.Pick(rng, 1, 1, 2) {
		s.openClient(simOptions{timeout: testkit.Pick(rng, h.timeout, h.timeout, 2*h.timeout)})
	}
}

// A heldOutage is a time in which all nodes hang; the zero value is none.
type heldOutage struct{ from, to time.Time }

func (o heldOutage) isNone() bool { return o.to.IsZero() }

// long reports whether connections may have been given up for it.
func (o heldOutage) long() bool { return o.to.Sub(o.from) > node.Silence(0)*9/10 }

// overlaps reports whether a part of it lies between from and to.
func (o heldOutage) overlaps(from, to time.Time) bool {
	return !o.from.After(to) && !o.to.Before(from)
}

// planOutage has all nodes hang once.
func (h *heldSim) planOutage() {
	h.outage.from = h.start.Add(testkit.Between(h.rng, h.ttl/2, h.span))
	h.outage.to = h.outage.from.Add(testkit.Magnitude(h.rng, time.Millisecond, 2*h.ttl))
	h.wg.Go(func() {
		time.Sleep(time.Until(h.outage.from))
		var ends []func()
		for _, n := range h.nodes {
			ends = append(ends, n.suffer(simHung, nil))
		}
		time.Sleep(time.Until(h.outage.to))
		for _, end := range ends {
			end()
		}
	})
}

// failAtRandom makes the node fail in one way after the other.
func (h *heldSim) failAtRandom(n *simNode, rng *rand.Rand) {
	if !n.faulty {
		if h.outage.isNone() && rng.IntN(3) == 0 {
			time.Sleep(testkit.Between(rng, 0, h.span))
			n.forget()
		}
		return
	}
	faults := append(slices.Clone(simFaults), simHung) // Once more: it is the worst of them.
	if h.loss {
		faults = slices.Concat(faults, simDataLosses, simKeyLosses)
	}
	n.endure(simWeather{
		faults: faults, times: 1 + rng.IntN(3), end: h.start.Add(h.span),
		quiet: [2]time.Duration{h.span / 16, h.span / 2}, length: [2]time.Duration{time.Millisecond, h.span},
	}, rng)
}

// happen has things happen to the client at random moments.
func (h *heldSim) happen(c *simClient, rng *rand.Rand) {
	if rng.IntN(4) == 0 {
		at, limit := testkit.Between(rng, 0, h.span), testkit.Pick(rng, testkit.Magnitude(rng, time.Millisecond, h.span), simUnhurried)
		h.wg.Go(func() {
			time.Sleep(at)
			start := time.Now()
			if _, err, first := c.close(limit); first {
				h.checkClosed(c, start, err)
			}
		})
	}
}

// onRequest looks at extensions and repairs that are about to run.
func (h *heldSim) onRequest(n *simNode, req *simRequest) {
	if req.script != "extend" && req.script != "repair" {
		return
	}
	h.mu.Lock()
	l := h.held[req.token]
	h.mu.Unlock()
	switch {
	case l == nil:
	case req.script == "extend":
		l.extensionArrived()
	default:
		h.tracef("%s repairs %s", n.Name(), l.name)
		l.checkRepair(n)
	}
}

// finish checks what is left when everything has ended.
func (h *heldSim) finish() {
	s := h.sim
	synctest.Wait()
	if len(s.healthy()) < len(s.nodes) || h.outage.long() {
		time.Sleep(node.Silence(s.longestTimeout()) + 2*time.Second + heldLate)
	} else {
		time.Sleep(h.settle)
	}
	synctest.Wait()
	s.checkLeftovers()
	for _, l := range h.allHeld() {
		time.Sleep(time.Until(l.Until())) // Contexts whose caller never ended them.
		time.Sleep(time.Until(l.from.Add(s.longest(l.o.minHold))))
	}
	synctest.Wait()
	for _, l := range h.allHeld() {
		l.checkEnded()
		l.endParents()
	}
}

func (h *heldSim) allHeld() (all []*heldLock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.locks {
		if held := h.held[l.token]; held != nil {
			all = append(all, held)
		}
	}
	return all
}
