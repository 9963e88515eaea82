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

// A heldActor takes one lock and does things with it.
type heldActor struct {
	simCaller
	h *heldSim
}

// A heldLock is a lock that is kept. What it adds is guarded by mu as well.
type heldLock struct {
	*simLock
	h        *heldSim
	w        *simCaller
	expected time.Duration // that an extension by KeepAlive leaves at least, until the next one

	first     *heldContext // has been kept from the beginning
	parents   []*heldParent
	kept      time.Time     // when KeepAlive was first called, or Do began
	doubted   bool          // a healthy node has lost keys of it
	stopped   time.Time     // when its contexts were ended but not the lock
	robbed    time.Time     // when all nodes lost it
	left      time.Time     // when Close had not to wait for it any more
	doing     bool          // Do is running
	lapsed    time.Time     // when it was first seen without a quorum of nodes, after its end
	hadQuorum time.Time     // when a quorum of nodes was last seen to have it
	arrivals  int           // of extensions at nodes, until trigger
	trigger   chan struct{} // closed at the last of arrivals
}

func (a *heldActor) run() {
	h, rng := a.h, a.rng
	time.Sleep(testkit.Between(rng, 0, h.span/4))
	ask := simAsk{resources: []string{a.name}, ttl: testkit.Between(rng, h.ttl, 2*h.ttl)}
	ask.opts = []redlock.Option{redlock.WithRetryCount(3), redlock.WithRetryDelay(h.ttl / 3)}
	if rng.IntN(5) == 0 {
		ask.o.maxHold = testkit.Magnitude(rng, h.ttl/2, h.span)
	}
	if rng.IntN(4) == 0 {
		ask.o.minHold = testkit.Between(rng, 1, ask.ttl)
	}
	if h.seed%2 == 0 { // Extensions and repairs keep counters, too.
		ask.o.fencing = true
	}
	if h.shared {
		ask.resources = []string{"a"}
	}
	if rng.IntN(4) == 0 {
		ask.resources = append(ask.resources, testkit.Pick(rng, "a", "b"))
	}
	if rng.IntN(2) == 0 {
		a.do(ask)
		return
	}
	lock, err := a.acquire(h.t.Context(), ask)
	if err != nil {
		return
	}
	l := a.keep(lock)
	if rng.IntN(10) > 0 {
		l.keepAlive(a.newParent(h.span))
	}
	a.live(l)
	if rng.IntN(8) == 0 {
		h.tracef("%s is abandoned", l.name)
		l.endParents()
		return
	}
	if rng.IntN(6) == 0 {
		// At the same instant as an extension, or while it is on its way.
		h.wg.Go(func() { _ = a.extend(h.t.Context(), time.Time{}, lock, ask.ttl) })
		time.Sleep(testkit.Between(rng, 0, h.nodes[0].delays[0]))
	}
	a.release(l)
}

// do uses Do.
func (a *heldActor) do(ask simAsk) {
	h, start := a.h, time.Now()
	parent := a.newParent(h.span)
	failure := testkit.Pick(a.rng, nil, errors.New("failure of the work"))
	var l *heldLock
	var keepers []*simNode // at the end of its function
	err := a.c.r.Do(parent.ctx, ask.resources, ask.ttl, func(ctx context.Context, lock *redlock.Lock) error {
		l = a.keep(a.c.acquired(lock, a.name+" of Do", start, ask))
		l.doing = true
		l.watch(ctx, parent)
		a.live(l) //nolint:contextcheck // What it does has callers of its own.
		if a.rng.IntN(6) == 0 {
			a.release(l) //nolint:contextcheck // As above.
		}
		keepers = l.keepers()
		l.noteRelease()
		return failure
	}, ask.options()...)
	h.tracef("%s Do: %v", a.name, err)
	if l == nil {
		if ended := parent.endedAt(); ended.IsZero() || !errors.Is(err, parent.ctx.Err()) && !errors.Is(err, parent.why) {
			a.checkRefused(err)
		}
		return
	}
	l.mu.Lock()
	l.doing, l.left = false, time.Now()
	l.mu.Unlock()
	l.checkDo(err, failure, keepers)
	l.noteUnlocked(nil)
	if err == nil {
		l.checkReleased()
	}
	l.endParents()
}

// keep enters a lock that was got.
func (a *heldActor) keep(lock *simLock) *heldLock {
	h := a.h
	l := &heldLock{simLock: lock, h: h, w: &a.simCaller, hadQuorum: lock.from}
	l.shared = true
	l.expected = testkit.Validity(l.ttl) - l.ttl/3 - h.settle
	h.mu.Lock()
	h.held[l.token] = l
	h.mu.Unlock()
	h.wg.Go(l.settled)
	return l
}

// settled notes whether nothing but its callers and the clock can end the lock.
func (l *heldLock) settled() {
	time.Sleep(l.h.settle)
	have := 0
	for _, n := range l.h.healthy() {
		if n.has(l.simLock) {
			have++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if have >= l.s.need && !l.doubted && l.released.IsZero() {
		l.secure = true
	}
}

// live does things with the lock for a time.
func (a *heldActor) live(l *heldLock) {
	h, rng := a.h, a.rng
	end := time.NewTimer(testkit.Between(rng, 0, h.span))
	defer end.Stop()
	ended := make(<-chan struct{})
	if c := l.firstContext(); c != nil && rng.IntN(4) > 0 {
		ended = c.ctx.Done()
	}
	var trigger chan struct{}
	if rng.IntN(3) == 0 {
		trigger = l.await(1 + rng.IntN(10))
	}
	for range 1 + rng.IntN(4) {
		select {
		case <-ended:
			if rng.IntN(2) == 0 {
				time.Sleep(testkit.Magnitude(rng, 1, h.ttl)) // The work takes a while to stop.
			}
			return
		case <-end.C:
			return
		case <-trigger:
			return
		case <-time.After(testkit.Magnitude(rng, time.Millisecond, h.span)):
		}
		l.checkUse()
		switch rng.IntN(12) {
		case 0, 1, 2:
			l.keepAlive(a.newParent(h.span / 2))
		case 3:
			life := testkit.Between(rng, h.ttl/2, 2*h.ttl)
			h.wg.Go(func() { _ = a.extend(h.t.Context(), time.Time{}, l.simLock, life) })
		case 4:
			if h.loss {
				l.rob(rng)
			}
		case 5:
			time.Sleep(time.Until(l.Until()) - testkit.Magnitude(rng, 1, time.Millisecond))
			return
		case 6, 7:
			a.ambush(l)
			trigger = l.await(1 + rng.IntN(len(h.nodes)))
			select {
			case <-end.C:
			case <-ended:
			case <-trigger:
				time.Sleep(testkit.Between(rng, 0, h.nodes[0].delays[0]))
			}
			return
		}
	}
	select {
	case <-ended:
	case <-end.C:
	case <-trigger:
	}
}

// ambush prepares for a release while an extension is on its way that will be
// sent again, or that will find keys missing.
func (a *heldActor) ambush(l *heldLock) {
	h := a.h
	if h.outage.isNone() && a.rng.IntN(2) == 0 {
		for _, n := range h.healthy() {
			n.forget("unlock")
		}
	}
	if !h.loss || a.rng.IntN(3) == 0 {
		return
	}
	n := testkit.Pick(a.rng, h.nodes...)
	h.tracef("%s loses the keys of %s", n.Name(), l.name)
	if !n.faulty {
		l.doubt()
	}
	for _, key := range l.keys {
		n.lose(key)
	}
}

// doubt notes that a healthy node is about to lose keys of the lock, which may be others'.
func (l *heldLock) doubt() {
	for _, other := range l.h.allHeld() {
		if slices.ContainsFunc(other.keys, func(key string) bool { return slices.Contains(l.keys, key) }) {
			other.mu.Lock()
			other.secure, other.doubted = false, true
			other.mu.Unlock()
		}
	}
}

// rob takes the keys away on all nodes at once.
func (l *heldLock) rob(rng *rand.Rand) {
	stolen := rng.IntN(2) == 0
	l.s.tracef("%s loses its keys, stolen: %v", l.name, stolen)
	l.doubt()
	l.mu.Lock()
	if l.robbed.IsZero() {
		l.robbed = time.Now()
	}
	l.mu.Unlock()
	for _, n := range l.s.nodes {
		for _, key := range l.keys {
			if stolen {
				n.rob(key, 4*l.h.ttl)
			} else {
				n.lose(key)
			}
		}
	}
}

// await returns a channel that is closed when n extensions have arrived at nodes.
func (l *heldLock) await(n int) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrivals, l.trigger = n, make(chan struct{})
	return l.trigger
}

// extensionArrived is called when a node is about to carry out an extension.
func (l *heldLock) extensionArrived() {
	l.mu.Lock()
	if l.arrivals--; l.arrivals == 0 && l.trigger != nil {
		close(l.trigger)
	}
	l.mu.Unlock()
	if l.s.loss && l.s.holders(l.simLock) >= l.s.need {
		l.mu.Lock()
		l.hadQuorum = time.Now()
		l.mu.Unlock()
	}
}

// release releases the lock, again if it failed.
func (a *heldActor) release(l *heldLock) {
	h := a.h
	for {
		secure, start := l.isSecure(), time.Now()
		late := !start.Before(l.lapse(l.Until()))
		err := a.unlock(h.t.Context(), l.simLock)
		l.mu.Lock()
		if l.left.IsZero() {
			l.left = time.Now()
		}
		l.mu.Unlock()
		if err != nil && secure && !late && !l.c.isClosed() && !h.outage.overlaps(l.start, time.Now()) {
			h.failf("(6) Unlock of %s, which a quorum of nodes has: %v", l.name, err)
		}
		if err == nil {
			l.checkReleased()
			return
		}
		if !errors.Is(err, redlock.ErrNoQuorum) || a.rng.IntN(2) == 0 {
			return
		}
		time.Sleep(testkit.Magnitude(a.rng, time.Millisecond, h.ttl))
	}
}
