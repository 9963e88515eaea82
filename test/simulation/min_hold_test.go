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

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Min holds: one process locks the same resource again and again, with a min hold. It extends the lock, and unlocks it
// while extensions are on their way, as connections break and deliver late what they were given, and as something on
// the way answers with an error what it carries out later. Another process wants the lock. The ttl is an hour, so that
// a key that nobody shortens is found. What is checked:
//
//   - before the end of the min hold, no node loses the key that it has, and nobody else gets the lock
//   - what comes late by t is undone by 2 t: then no node has a key
type minHoldSim struct {
	*sim

	minHold, late time.Duration
	span          time.Duration // from when a lock is got, within which there are faults
	faults        []simFault

	erring map[*simNode]bool // answer with errors; guarded by mu
}

func runMinHold(s *sim) {
	rng := s.rng
	s.cluster(testkit.Pick(rng, 1, 2, 3, 3, 3, 4, 5, 5, 7), testkit.Pick(rng, 0, time.Millisecond, 5*time.Millisecond, 20*time.Millisecond))
	m := &minHoldSim{sim: s, minHold: testkit.Magnitude(rng, 200*time.Millisecond, 40*time.Second), erring: map[*simNode]bool{}}
	m.late = testkit.Magnitude(rng, 10*time.Millisecond, m.minHold)
	m.span = testkit.Between(rng, m.minHold/4, m.minHold)
	m.faults = append(slices.Clone(simFaults), simCutOff, simCutOff, simMute, m.errs())
	s.slowest = []time.Duration{10 * time.Millisecond, m.minHold / 20, m.minHold / 4}
	s.onRequest = m.deliverLate
	s.makeFaulty(testkit.Pick(rng, len(s.nodes), rng.IntN(len(s.nodes)+1)))
	for _, n := range s.nodes {
		n.Proxy().LateBytes(0, m.late)
	}
	timeout := testkit.Pick(rng, 100*time.Millisecond, testkit.DefaultNodeTimeout)
	holder, other := s.openClient(simOptions{timeout: timeout}), s.openClient(simOptions{timeout: timeout})
	s.moveClocks(2*m.minHold, m.minHold/2)
	for i := range 1 + rng.IntN(3) {
		m.round(&simCaller{s: s, c: holder, rng: s.newRand(), name: fmt.Sprintf("%s.%d", holder.name, i+1)}, other)
		if s.failed() {
			return
		}
	}
	s.endDelays()
}

// errs is the fault of something on the way to the node that gives up, and carries out later what it has answered.
func (m *minHoldSim) errs() simFault {
	set := func(n *simNode, text string) {
		m.mu.Lock()
		m.erring[n] = text != ""
		m.mu.Unlock()
		m.must(n.SetError(text))
	}
	return simFault{"answering for something on the way", func(n *simNode, _ *rand.Rand) func() {
		set(n, "ERR upstream request timeout")
		return func() { set(n, "") }
	}}
}

// deliverLate has the node carry out later what was answered with an error.
func (m *minHoldSim) deliverLate(n *simNode, req *simRequest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.erring[n] && (req.sets() || req.script == "extend") {
		n.sendAgain(req, 1, 1, m.late)
	}
}

// round takes the lock, has all go wrong, releases it, and looks at what is left.
func (m *minHoldSim) round(w *simCaller, other *simClient) {
	s, rng := m.sim, w.rng
	ask := simAsk{try: true, resources: []string{"a", "b"}[:1+rng.IntN(2)], ttl: time.Hour}
	ask.o = simOptions{minHold: m.minHold, fencing: rng.IntN(3) == 0}
	term := testkit.Magnitude(rng, 60*time.Millisecond, 2*m.minHold) // Of a KeepAlive; it extends after a third of that.
	ask.opts = []redlock.Option{redlock.WithStopTime(testkit.Validity(ask.ttl) - term)}
	l, err := w.acquire(s.t.Context(), ask)
	if err != nil {
		s.failf("(6) nothing is wrong: %v", err)
		return
	}
	l.shared = true
	var wg sync.WaitGroup
	faults := weather(m.faults, m.span/4, m.span/2, l.from.Add(m.span))
	faults.usual = &simCutOff
	s.endure(&wg, faults)
	own := s.newRand()
	wg.Go(func() { m.watch(l, own) })
	contender := &simCaller{s: s, c: other, rng: s.newRand(), name: other.name + w.name}
	wg.Go(func() { m.contend(contender, l) })
	m.use(w, l)
	wg.Wait()
	s.again.Wait()
	m.checkGone(l)
}

// use extends the lock, and releases it while some of that is on its way.
func (m *minHoldSim) use(w *simCaller, l *simLock) {
	s, rng := m.sim, w.rng
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	var wg sync.WaitGroup
	if rng.IntN(2) == 0 {
		l.KeepAlive(ctx)
	}
	for range rng.IntN(6) {
		time.Sleep(testkit.Magnitude(rng, time.Millisecond, m.span/2))
		wg.Go(func() { _ = l.Extend(ctx, time.Hour) })
	}
	time.Sleep(testkit.Magnitude(rng, 1, 100*time.Millisecond))
	for {
		err := w.unlock(ctx, l)
		if !errors.Is(err, redlock.ErrNoQuorum) || rng.IntN(3) == 0 {
			break
		}
		time.Sleep(testkit.Magnitude(rng, time.Millisecond, m.span/4))
	}
	wg.Wait()
}

// watch checks that no node loses the lock's keys before the end of the min hold.
func (m *minHoldSim) watch(l *simLock, rng *rand.Rand) {
	had := map[*simNode]bool{}
	for time.Now().Before(l.keptTo(l.start)) {
		for _, n := range m.nodes {
			switch has := n.has(l); {
			case has:
				had[n] = true
			case had[n] && time.Now().Before(l.keptTo(l.start)):
				m.failf("(5) %s has lost keys of %s before the end of its min hold at %v", n.Name(), l.name, m.offset(l.keptTo(l.start)))
				return
			}
		}
		time.Sleep(max(1, min(testkit.Magnitude(rng, time.Millisecond, m.minHold/4), time.Until(l.keptTo(l.start))-1)))
	}
}

// contend checks that nobody else gets the lock before the end of the min hold.
func (m *minHoldSim) contend(w *simCaller, l *simLock) {
	for {
		time.Sleep(testkit.Magnitude(w.rng, time.Millisecond, m.minHold/2))
		if !time.Now().Before(l.keptTo(l.start)) {
			return
		}
		lock, err := w.c.r.TryLock(m.t.Context(), []string{"a"}, time.Hour)
		if err != nil {
			continue
		}
		if time.Now().Before(l.keptTo(l.start)) {
			m.failf("(1) %s got the lock before the end of the min hold of %s at %v", w.name, l.name, m.offset(l.keptTo(l.start)))
		}
		_ = lock.Unlock(m.t.Context())
	}
}

// checkGone checks, when the faults have ended, that all is gone in time: what was late of broken connections, and
// releases that nodes have carried out late.
func (m *minHoldSim) checkGone(l *simLock) {
	s := m.sim
	reconnected := node.Silence(s.longestTimeout()) + 2*time.Second
	late := time.Since(l.start) + reconnected + m.late
	time.Sleep(time.Until(l.start.Add(2*late + time.Second)))
	synctest.Wait()
	s.checkExpired()
}
