package redlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// A simWorker is one goroutine that uses a client.
type simWorker struct {
	s    *sim
	c    *simClient
	rng  *rand.Rand
	name string
	made int // locks
}

// A simLock is a lock that was acquired, with its history. Until is not in it:
// the handle keeps it.
type simLock struct {
	*Lock
	name string
	c    *simClient
	from time.Time // when the lock was returned
	call time.Time // when it was asked for

	mu       sync.Mutex
	shared   bool      // by two goroutines
	released time.Time // when Unlock was first called, zero before
	err      error     // what Err returned, once that was not nil
}

func (w *simWorker) run(until time.Time) {
	for afterClose := 0; afterClose < 3; {
		time.Sleep(between(w.rng, 0, w.s.plan.think))
		if every := w.s.plan.bursts; every > 0 {
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
		end := w.disturb("cut off")
		l := w.acquire()
		end()
		if l != nil {
			w.hold(l)
		}
		if w.s.plan.closing && w.rng.IntN(20) == 0 {
			// As a process does that ends right after a release or a failure.
			w.c.close(w.s.t.Context(), false)
		}
	}
}

// randomContext returns a context that in some cases ends within the limit, and
// when: a zero time is never.
func (w *simWorker) randomContext(limit time.Duration) (ctx context.Context, cancel context.CancelFunc, end time.Time) {
	end = time.Now().Add(between(w.rng, 0, limit))
	switch w.rng.IntN(6) {
	case 0:
		ctx, cancel := context.WithDeadline(w.s.t.Context(), end)
		return ctx, cancel, end
	case 1:
		ctx, cancel := context.WithCancel(w.s.t.Context())
		stop := time.AfterFunc(time.Until(end), cancel)
		return ctx, func() { stop.Stop(); cancel() }, end
	default:
		return w.s.t.Context(), func() {}, time.Time{}
	}
}

func (w *simWorker) randomTTL() time.Duration {
	if w.s.plan.late && w.rng.IntN(4) > 0 {
		return between(w.rng, simMaxTTL*5/6, simMaxTTL) // So that an extension moves Until.
	}
	if w.s.plan.longTTL && w.rng.IntN(3) > 0 {
		return between(w.rng, 20*time.Millisecond, simMaxTTL)
	}
	return magnitude(w.rng, 20*time.Millisecond, time.Second)
}

// acquire calls Lock or TryLock and checks how it ends.
func (w *simWorker) acquire() *simLock {
	s, rng := w.s, w.rng
	resources := make([]string, 0, len(s.resources))
	for _, i := range rng.Perm(len(s.resources))[:1+rng.IntN(len(s.resources))] {
		resources = append(resources, s.resources[i])
	}
	life, timeout := w.randomTTL(), w.c.timeout
	var opts []Option
	if rng.IntN(8) == 0 {
		timeout = pick(rng, simTimeouts...)
		opts = append(opts, WithNodeTimeout(timeout))
	}
	bound := w.c.timeout + 2*timeout // For connections, and once more for a split vote.
	if rng.IntN(2) < s.plan.fencing {
		opts = append(opts, WithFencing())
		bound += timeout // And for a raise.
	}
	attempts := 1
	call := w.c.r.TryLock
	what := "TryLock"
	if rng.IntN(2) == 0 {
		call, what = w.c.r.Lock, "Lock"
		retries, delay := rng.IntN(4), magnitude(rng, time.Millisecond, 100*time.Millisecond)
		opts = append(opts, WithRetryCount(retries), WithRetryDelay(delay))
		bound = time.Duration(retries+1)*bound + 2*time.Duration(retries)*delay
		attempts += retries
		if rng.IntN(2) == 0 {
			opts = append(opts, WithPolling())
		} else {
			// A release may set off another attempt before each timed one; none of them
			// puts those off by more than the time that it takes. Before the first, it
			// gets in line.
			bound += time.Duration(retries+1)*bound + w.c.timeout
			attempts = math.MaxInt
		}
	}
	ctx, cancel, end := w.randomContext(bound)
	defer cancel()

	s.tracef("%s %s %q ttl %v, timeout %v, context until %v", w.name, what, resources, life, timeout, s.offset(end))
	start := time.Now()
	lock, err := call(ctx, resources, life, opts...)
	now := time.Now()
	w.checkEnd(what, start, bound, end, true)
	if err != nil {
		s.tracef("%s %s: %v", w.name, what, err)
		w.checkLockError(ctx, what, err, unique(resources), start, life, attempts)
		return nil
	}
	w.made++
	l := &simLock{Lock: lock, name: fmt.Sprintf("%s#%d", w.name, w.made), c: w.c, from: now, call: start}
	if (l.Fence() > 0) != l.o.fencing {
		s.failf("(2) %s has fence %d", l.name, l.Fence())
	}
	s.tracef("%s acquired %s, token %.6s, until %v", w.name, l.name, lock.Token(), s.offset(lock.Until()))
	s.mu.Lock()
	s.locks = append(s.locks, l)
	double := s.byToken[lock.Token()]
	s.byToken[lock.Token()] = l
	s.mu.Unlock()
	if double != nil {
		s.failf("%s and %s have the same token", double.name, l.name)
	}
	// It counts from the beginning of an attempt within the call.
	if began := lock.Until().Add(-validity(life, DefaultDriftFactor)); began.Before(start) || began.After(now) {
		s.failf("(3) %s: Until %v after %s at %v with ttl %v", l.name, s.offset(lock.Until()), what, s.offset(start), life)
	}
	if !lock.Until().After(now) {
		s.failf("(3) %s was returned when it had ended", l.name)
	}
	w.check(l, "acquired")
	return l
}

// hold uses the lock and ends it in one of several ways.
func (w *simWorker) hold(l *simLock) {
	rng := w.rng
	long := time.Until(l.Until()) > 3*time.Second
	fate := rng.IntN(10)
	if long && rng.IntN(4) > 0 {
		fate = 0 // Or nobody else would get it for the rest of the phase.
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if rng.IntN(4) == 0 {
		other := &simWorker{s: w.s, c: w.c, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), name: w.name + "'"}
		// Somebody else who has the handle.
		l.shared = true
		wg.Go(func() {
			for range 1 + other.rng.IntN(3) {
				time.Sleep(magnitude(other.rng, time.Millisecond, 200*time.Millisecond))
				other.use(l)
			}
			if other.rng.IntN(3) == 0 && fate < 6 {
				_ = other.unlock(l)
			}
		})
	}
	if w.s.plan.late {
		w.holdLong(l)
	}
	for range rng.IntN(4) {
		time.Sleep(magnitude(rng, time.Millisecond, 200*time.Millisecond))
		w.use(l)
	}
	if rng.IntN(6) == 0 && !long {
		// At the last moment.
		time.Sleep(time.Until(l.Until()) - magnitude(rng, 100*time.Microsecond, 50*time.Millisecond))
		w.use(l)
	}
	switch {
	case fate < 6 || long && fate < 9:
		err := w.unlock(l)
		for rng.IntN(3) == 0 || errors.Is(err, ErrNoQuorum) && rng.IntN(4) > 0 {
			time.Sleep(magnitude(rng, time.Millisecond, 2*time.Second))
			err = w.unlock(l)
		}
	case fate < 8 && !long:
		w.expire(l)
		if rng.IntN(2) == 0 {
			_ = w.unlock(l)
		}
	default:
		w.s.tracef("%s abandons %s", w.name, l.name)
	}
}

// use looks at the lock and may extend it.
func (w *simWorker) use(l *simLock) {
	w.check(l, "in use")
	if w.rng.IntN(2) == 0 {
		return
	}
	w.extend(l)
}

func (w *simWorker) extend(l *simLock) {
	s := w.s
	life := w.randomTTL()
	if w.rng.IntN(2) == 0 && !w.s.plan.late {
		life = min(life, time.Second)
	}
	timeout := l.o.nodeTimeout
	ctx, cancel, end := w.randomContext(timeout * 3 / 2)
	defer cancel()
	s.tracef("%s extends %s by %v, context until %v", w.name, l.name, life, s.offset(end))
	start := time.Now()
	before := l.Until()
	err := l.Extend(ctx, life)
	now := time.Now()
	until := l.Until()
	s.tracef("%s Extend %s: %v, until %v", w.name, l.name, err, s.offset(until))
	w.checkEnd("Extend", start, timeout, end, false)
	released := l.releasedAt()
	switch {
	case until.Before(before):
		s.failf("Extend of %s shortened it from %v to %v", l.name, s.offset(before), s.offset(until))
	case err != nil:
		w.checkExtendError(ctx, l, err, before, released, start)
	case !released.IsZero() && now.After(released):
		s.failf("(4) Extend of %s succeeded after Unlock at %v", l.name, s.offset(released))
	case !now.Before(start.Add(validity(life, DefaultDriftFactor))) || until.Before(start.Add(validity(life, DefaultDriftFactor))):
		s.failf("(3) Extend of %s by %v at %v succeeded with Until %v", l.name, life, s.offset(start), s.offset(until))
	case !now.Before(before) && !l.shared:
		s.failf("(4) Extend of %s succeeded after Until, which was %v", l.name, s.offset(before))
	}
	w.check(l, "extended")
}

// expire waits for the lock's end, to the nanosecond.
func (w *simWorker) expire(l *simLock) {
	for {
		until := l.Until()
		time.Sleep(time.Until(until) - 1)
		w.check(l, "just before its end")
		time.Sleep(time.Until(until))
		if l.Until().Equal(until) {
			break
		}
	}
	w.check(l, "at its end")
	if err := l.Err(); !errors.Is(err, ErrLost) {
		w.s.failf("(4) Err of %s at Until: %v", l.name, err)
	}
	w.s.tracef("%s let %s expire", w.name, l.name)
	start := time.Now()
	if err := l.Extend(w.s.t.Context(), time.Second); !errors.Is(err, ErrLost) || !time.Now().Equal(start) {
		w.s.failf("(4) Extend of %s after Until: %v, took %v", l.name, err, time.Since(start))
	}
}

func (l *simLock) releasedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.released
}

func (w *simWorker) unlock(l *simLock) error {
	s := w.s
	ctx, cancel, _ := w.randomContext(l.o.nodeTimeout) // It must have no effect.
	defer cancel()
	start := time.Now()
	l.mu.Lock()
	if l.released.IsZero() {
		l.released = start
	}
	l.mu.Unlock()
	s.tracef("%s unlocks %s", w.name, l.name)
	err := l.Unlock(ctx)
	s.tracef("%s Unlock %s: %v", w.name, l.name, err)
	w.checkEnd("Unlock", start, l.o.nodeTimeout, time.Time{}, false)
	w.checkUnlock(l, err)
	w.check(l, "released")
	return err
}

// inspect asks who holds a resource. Little is promised about the answer.
func (w *simWorker) inspect() {
	s := w.s
	ctx, cancel, end := w.randomContext(w.c.timeout)
	defer cancel()
	start := time.Now()
	in, err := w.c.r.Inspect(ctx, pick(w.rng, s.resources...))
	w.checkEnd("Inspect", start, 2*w.c.timeout, end, false) // Once more for connections.
	switch {
	case err == nil:
		if len(in.Nodes) != len(s.nodes) {
			s.failf("(8) Inspect shows %d of %d nodes", len(in.Nodes), len(s.nodes))
		}
	case ctx.Err() != nil && errors.Is(err, ctx.Err()), errors.Is(err, ErrClosed) && w.c.isClosed():
	default:
		s.failf("Inspect: %v", err)
	}
}
