package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing/synctest"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Waiting: clients with several goroutines each want the same few resources, while subscriptions break, messages are lost,
// callers give up, attempts are cut short at the moment of a wake-up, holders vanish and a minority of nodes fails. Every
// wait is compared with what the retry delay allows. Promise (9) is here:
//
//   - nobody sleeps past a free lock for longer than one retry delay
//   - while nothing fails, a release wakes a waiter in a few round trips
//   - every wait ends; no place in a line of the process is left
type waitingSim struct {
	*sim

	sets   [][]string
	single bool          // every set is one resource
	delay  time.Duration // the retry delay
	jitter time.Duration
	hold   time.Duration // at most
	turns  int           // of each goroutine, at most
	ttl    time.Duration
	o      simOptions
	faults bool
	until  time.Time

	state map[string]*waitingResource // guarded by mu
}

// A waitingResource is what is known of a resource.
type waitingResource struct {
	free   time.Time // since when nobody holds it, if nobody does
	splits int64     // how often votes had been split when the last holder got it
}

const (
	// waitingSlack is what a wait may take beside the retry delay: two attempts, since one
	// may just have begun, and time for a split vote in each.
	waitingSlack = 4*testkit.DefaultNodeTimeout + 10*time.Millisecond

	// wakeable is a time in which one that has been refused is in line on the nodes, and
	// in which a hand-over ends, even if it has to be passed on.
	wakeable = 40 * time.Millisecond
)

func runWaiting(s *sim) {
	ws := &waitingSim{sim: s, state: map[string]*waitingResource{}}
	ws.prepare()
	s.tracef("%d nodes, sets %v, delay %v ± %v, hold %v, ttl %v, %+v, faults %v",
		len(s.nodes), ws.sets, ws.delay, ws.jitter, ws.hold, ws.ttl, ws.o, ws.faults)
	for range 1 + s.rng.IntN(4) {
		s.openClient(simOptions{}, redlock.WithRetryDelay(ws.delay), redlock.WithRetryJitter(ws.jitter))
	}
	s.moveClocks(time.Until(ws.until), ws.ttl)
	for _, c := range s.clients {
		for i := range 1 + s.rng.IntN(4) {
			w := &simCaller{s: s, c: c, rng: s.newRand(), name: fmt.Sprintf("%s.%d", c.name, i+1)}
			s.wg.Go(func() { ws.work(w) })
		}
		if rng := s.newRand(); ws.faults {
			s.wg.Go(func() { c.disturb(rng, ws.until) })
		}
	}
	s.endure(&s.wg, weather(simFaults, time.Second, 2*time.Second, ws.until))
	for _, n := range s.nodes {
		if rng := s.newRand(); n.faulty {
			s.wg.Go(func() { n.forgetAtRandom(rng, time.Second, ws.until) })
		}
	}
	s.wg.Wait()
	ws.finish()
}

func (ws *waitingSim) prepare() {
	s, rng := ws.sim, ws.rng
	s.cluster(testkit.Pick(rng, 1, 2, 3, 3, 3, 3, 4, 5, 5, 6, 7, 9), testkit.Pick(rng, 0, 0, 200*time.Microsecond, 2*time.Millisecond))
	ws.delay = testkit.Pick(rng, 20*time.Millisecond, 200*time.Millisecond, time.Second)
	ws.jitter = testkit.Pick(rng, 0, ws.delay/2, ws.delay)
	ws.hold = testkit.Pick(rng, time.Millisecond, 30*time.Millisecond)
	ws.turns = 1 + rng.IntN(15)
	ws.ttl = testkit.Pick(rng, 200*time.Millisecond, time.Second, 5*time.Second)
	if rng.IntN(2) == 0 {
		ws.o.fencing = true
	}
	if rng.IntN(3) == 0 {
		ws.o.minHold = testkit.Between(rng, ws.hold, ws.ttl/4)
	}
	ws.until = s.start.Add(testkit.Between(rng, 100*time.Millisecond, 2*time.Second))
	ws.single = rng.IntN(3) > 0
	ws.sets = [][]string{{"a"}}
	if rng.IntN(2) == 0 {
		ws.sets = append(ws.sets, []string{"b"})
	}
	if !ws.single {
		ws.sets = append(ws.sets, []string{"a", "b"}, []string{"b", "c"})
	}
	for _, res := range []string{"a", "b", "c"} {
		ws.state[res] = &waitingResource{free: s.start}
	}
	if ws.faults = rng.IntN(2) == 0; ws.faults && len(s.nodes) > s.need {
		s.makeFaulty(1 + rng.IntN(len(s.nodes)-s.need))
	}
}

// work is one goroutine of a client.
func (ws *waitingSim) work(w *simCaller) {
	s, rng := ws.sim, w.rng
	for range ws.turns {
		if !time.Now().Before(ws.until) || s.failed() {
			return
		}
		time.Sleep(testkit.Pick(rng, 0, 0, testkit.Magnitude(rng, time.Microsecond, 50*time.Millisecond)))
		set, limit := testkit.Pick(rng, ws.sets...), time.Duration(0)
		if rng.IntN(5) == 0 {
			limit = testkit.Magnitude(rng, 10*time.Microsecond, ws.delay)
		}
		l, err := ws.lock(w, set, limit, testkit.Pick(rng, -1, -1, 1000))
		if err != nil {
			if limit == 0 || !errors.Is(err, context.DeadlineExceeded) {
				s.failf("(7) %s: %v, limit %v", w.name, err, limit)
			}
			continue
		}
		time.Sleep(testkit.Pick(rng, 0, testkit.Between(rng, 0, ws.hold)))
		if rng.IntN(30) == 0 {
			s.tracef("%s vanishes with %v, until %v", w.name, set, s.offset(l.Until()))
			ws.free(l, l.start.Add(s.longest(l.ttl)+2*time.Millisecond)) // When its keys have expired.
			continue
		}
		if rng.IntN(3) == 0 {
			ws.interfere(set, w)
		}
		ws.release(w, l)
	}
}

// interfere starts an attempt that is cut short about when somebody is told of a release.
func (ws *waitingSim) interfere(set []string, by *simCaller) {
	rng := by.rng
	w := &simCaller{s: ws.sim, c: testkit.Pick(rng, ws.clients...), rng: rng, name: by.name + "'"}
	count, delay := testkit.Pick(rng, 0, -1), testkit.Magnitude(rng, 10*time.Microsecond, 5*time.Millisecond)
	limit := testkit.Magnitude(rng, 10*time.Microsecond, 5*time.Millisecond)
	ws.wg.Go(func() {
		time.Sleep(delay)
		if l, err := ws.lock(w, set, limit, count); err == nil {
			ws.release(w, l)
		}
	})
}

// lock waits for a lock, until the limit if that is not zero, and checks (9).
func (ws *waitingSim) lock(w *simCaller, set []string, limit time.Duration, retries int) (*simLock, error) {
	s, since := ws.sim, time.Now()
	ctx, end := s.t.Context(), time.Time{}
	if limit > 0 {
		end = since.Add(limit)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
	}
	l, err := w.acquire(ctx, simAsk{resources: set, ttl: ws.ttl, o: ws.o, end: end, opts: []redlock.Option{redlock.WithRetryCount(retries)}})
	if err != nil {
		return nil, err
	}
	splits := int64(0)
	for _, c := range s.clients {
		splits += c.r.Stats().Splits
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, res := range set {
		st, waited := ws.state[res], time.Since(ws.state[res].free)
		limit := wakeable
		if splits > st.splits {
			limit += testkit.DefaultNodeTimeout // Newcomers have split the votes; that is resolved within it.
		}
		if long := min(waited, time.Since(since)); ws.single && long > ws.delay+ws.jitter+waitingSlack {
			s.failLocked("(9) %s has got %s %v after it was free", w.name, res, long)
		}
		if ws.single && !ws.faults && since.Before(st.free.Add(-wakeable)) && waited > limit {
			s.failLocked("(9) %s has got %s %v after its release", w.name, res, waited)
		}
		st.splits = splits
	}
	return l, nil
}

// release releases a lock. It was held if it has not ended meanwhile: a lock may have taken most of its ttl, with
// votes that were split and a slow node for its quorum.
func (ws *waitingSim) release(w *simCaller, l *simLock) {
	ws.free(l, laterOf(time.Now(), l.from.Add(ws.longest(l.o.minHold))))
	err := w.unlock(ws.t.Context(), l)
	if over := errors.Is(err, redlock.ErrLost) && !time.Now().Before(l.lapse(l.Until())); err != nil && !over {
		ws.failf("(6) %s: Unlock %s: %v", w.name, l.name, err)
	}
}

// free notes when nobody holds the resources of the lock any more.
func (ws *waitingSim) free(l *simLock, from time.Time) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, res := range l.Resources() {
		ws.state[res].free = from
	}
}

// disturb does to the subscriptions of a client what networks do.
func (c *simClient) disturb(rng *rand.Rand, until time.Time) {
	for time.Now().Before(until) {
		time.Sleep(testkit.Magnitude(rng, 100*time.Microsecond, 300*time.Millisecond))
		tp := testkit.Pick(rng, c.taps...)
		all := rng.IntN(3) == 0
		mute, length := rng.IntN(2) == 0, testkit.Magnitude(rng, time.Millisecond, 500*time.Millisecond)
		for _, other := range c.taps {
			switch {
			case other != tp && !all:
			case mute:
				other.SetMute(true)
			default:
				other.Cut()
			}
		}
		if mute {
			time.Sleep(length)
			for _, other := range c.taps {
				other.SetMute(false)
			}
		}
	}
}

// finish checks what is left when everybody has what he wanted.
func (ws *waitingSim) finish() {
	s := ws.sim
	synctest.Wait()
	s.endDelays()
	s.checkLines()
	time.Sleep(ws.ttl + 12*time.Second) // Of holders that have vanished; and for nodes to come back.
	s.checkExpired()
	for _, c := range s.clients {
		c.checkStats()
	}
}

// checkLines checks (9), when nobody waits any more.
func (s *sim) checkLines() {
	for _, c := range s.open() {
		if _, left := testkit.WaitersOf(c.r); left > 0 {
			s.failf("(9) %d places in the lines at %s are taken", left, c.name)
		}
	}
}
