package simulation

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A randomWorker is one goroutine that uses a client.
type randomWorker struct {
	simCaller
	r *randomSim
}

func (w *randomWorker) run(until time.Time) {
	for afterClose := 0; afterClose < 3; {
		time.Sleep(testkit.Between(w.rng, 0, w.r.plan.think))
		if every := w.r.plan.bursts; every > 0 {
			time.Sleep(every - time.Since(w.s.start)%every)
		}
		if !time.Now().Before(until) || w.s.failed() {
			return
		}
		if w.c.isClosed() {
			afterClose++
		}
		if w.rng.IntN(20) == 0 {
			w.inspect()
			continue
		}
		end := w.disturb(simCutOff)
		l := w.lock()
		end()
		if l != nil {
			w.hold(l)
		}
		if w.r.plan.closing && w.rng.IntN(20) == 0 {
			// As a process does that ends right after a release or a failure.
			w.c.closeIdle()
		}
	}
}

func (w *randomWorker) randomTTL() time.Duration {
	if w.s.late && w.rng.IntN(4) > 0 {
		return testkit.Between(w.rng, simMaxTTL*5/6, simMaxTTL) // So that an extension moves Until.
	}
	if w.r.plan.longTTL && w.rng.IntN(3) > 0 {
		return testkit.Between(w.rng, 20*time.Millisecond, simMaxTTL)
	}
	return testkit.Magnitude(w.rng, 20*time.Millisecond, time.Second)
}

// lock calls Lock or TryLock; nil if it got none.
func (w *randomWorker) lock() *simLock {
	rng, timeout := w.rng, w.c.timeout
	ask := simAsk{try: rng.IntN(2) == 0, ttl: w.randomTTL(), attempts: 1}
	for _, i := range rng.Perm(len(w.r.resources))[:1+rng.IntN(len(w.r.resources))] {
		ask.resources = append(ask.resources, w.r.resources[i])
	}
	if w.r.plan.turn > 0 && rng.IntN(20) > 0 {
		w.takesTurns(&ask)
	}
	if rng.IntN(8) == 0 {
		timeout = testkit.Pick(rng, simTimeouts...)
		ask.o.timeout = timeout
	}
	ask.bound += w.c.timeout + 2*timeout // For connections, and once more for a split vote.
	if rng.IntN(2) < w.r.plan.fencing {
		ask.o.fencing = true
		ask.bound += timeout // And for a raise.
	}
	if !ask.try {
		w.retry(&ask)
	}
	ctx, cancel, end := w.context(ask.bound)
	defer cancel()
	ask.end = end
	l, _ := w.acquire(ctx, ask)
	return l
}

// retry makes the call one of Lock, in line or polling.
func (w *randomWorker) retry(ask *simAsk) {
	retries, delay := w.rng.IntN(4), testkit.Magnitude(w.rng, time.Millisecond, 100*time.Millisecond)
	ask.opts = append(ask.opts, redlock.WithRetryCount(retries), redlock.WithRetryDelay(delay))
	ask.bound = time.Duration(retries+1)*ask.bound + 2*time.Duration(retries)*delay
	ask.attempts += retries
	if w.rng.IntN(2) == 0 && (ask.o.turn == 0 || w.rng.IntN(8) == 0) {
		ask.opts = append(ask.opts, redlock.WithPolling())
		return
	}
	// A release may set off another attempt before each timed one; none of them
	// puts those off by more than the time that it takes. Before the first, it
	// gets in line.
	ask.bound += time.Duration(retries+1)*ask.bound + w.c.timeout
	ask.attempts = 0
}

// hold uses the lock and ends it in one of several ways.
func (w *randomWorker) hold(l *simLock) {
	rng := w.rng
	if l.o.turn > 0 && rng.IntN(20) > 0 {
		w.hurries(l)
		return
	}
	long := time.Until(l.Until()) > 3*time.Second
	fate := rng.IntN(10)
	if long && rng.IntN(4) > 0 {
		fate = 0 // Or nobody else would get it for the rest of the phase.
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if rng.IntN(4) == 0 {
		w.share(l, fate < 6, &wg)
	}
	if w.s.late {
		w.holdLong(l)
	}
	for range rng.IntN(4) {
		time.Sleep(testkit.Magnitude(rng, time.Millisecond, 200*time.Millisecond))
		w.use(l)
	}
	if rng.IntN(6) == 0 && !long {
		// At the last moment.
		time.Sleep(time.Until(l.Until()) - testkit.Magnitude(rng, 100*time.Microsecond, 50*time.Millisecond))
		w.use(l)
	}
	switch {
	case fate < 6 || long && fate < 9:
		err := w.release(l)
		for rng.IntN(3) == 0 || errors.Is(err, redlock.ErrNoQuorum) && rng.IntN(4) > 0 {
			time.Sleep(testkit.Magnitude(rng, time.Millisecond, 2*time.Second))
			err = w.release(l)
		}
	case fate < 8 && !long:
		w.expire(l)
		if rng.IntN(2) == 0 {
			_ = w.release(l)
		}
	default:
		w.s.tracef("%s abandons %s", w.name, l.name)
	}
}

// share gives the handle to somebody else, who uses it as well.
func (w *randomWorker) share(l *simLock, releases bool, wg *sync.WaitGroup) {
	other := *w
	other.rng, other.name = rand.New(rand.NewPCG(w.rng.Uint64(), 0)), w.name+"'"
	l.shared = true
	wg.Go(func() {
		for range 1 + other.rng.IntN(3) {
			time.Sleep(testkit.Magnitude(other.rng, time.Millisecond, 200*time.Millisecond))
			other.use(l)
		}
		if other.rng.IntN(3) == 0 && releases {
			_ = other.release(l)
		}
	})
}

// use looks at the lock and may extend it.
func (w *randomWorker) use(l *simLock) {
	_ = l.check("in use")
	if w.rng.IntN(2) == 0 {
		return
	}
	w.extendAtRandom(l)
}

func (w *randomWorker) extendAtRandom(l *simLock) {
	life := w.randomTTL()
	if w.rng.IntN(2) == 0 && !w.s.late {
		life = min(life, time.Second)
	}
	ctx, cancel, end := w.context(l.o.timeout * 3 / 2)
	defer cancel()
	_ = w.extend(ctx, end, l, life)
}

func (w *randomWorker) release(l *simLock) error {
	ctx, cancel, _ := w.context(l.o.timeout) // It must have no effect.
	defer cancel()
	return w.unlock(ctx, l)
}

// expire waits for the lock's end, to the nanosecond.
func (w *randomWorker) expire(l *simLock) {
	for {
		until := l.Until()
		time.Sleep(time.Until(until) - 1)
		_ = l.check("just before its end")
		time.Sleep(time.Until(until))
		if l.Until().Equal(until) {
			break
		}
	}
	if err := l.check("at its end"); !errors.Is(err, redlock.ErrLost) {
		w.s.failf("(4) Err of %s at Until: %v", l.name, err)
	}
	w.s.tracef("%s let %s expire", w.name, l.name)
	start := time.Now()
	if err := l.Extend(w.s.t.Context(), time.Second); !errors.Is(err, redlock.ErrLost) || !time.Now().Equal(start) {
		w.s.failf("(4) Extend of %s after Until: %v, took %v", l.name, err, time.Since(start))
	}
}

// inspect asks who holds a resource. Little is promised about the answer.
func (w *randomWorker) inspect() {
	s := w.s
	ctx, cancel, end := w.context(w.c.timeout)
	defer cancel()
	start := time.Now()
	in, err := w.c.r.Inspect(ctx, testkit.Pick(w.rng, w.r.resources...))
	w.checkEnd("Inspect", start, 2*w.c.timeout, end, false) // Once more for connections.
	switch {
	case err == nil:
		if len(in.Nodes) != len(s.nodes) {
			s.failf("(8) Inspect shows %d of %d nodes", len(in.Nodes), len(s.nodes))
		}
	case ctx.Err() != nil && errors.Is(err, ctx.Err()), errors.Is(err, redlock.ErrClosed) && w.c.isClosed():
	default:
		s.failf("(8) Inspect: %v", err)
	}
}
