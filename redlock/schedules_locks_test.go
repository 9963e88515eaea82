package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// A scheduleActor takes one lock and does things with it.
type scheduleActor struct {
	s    *schedule
	c    *scheduleClient
	rng  *rand.Rand
	name string
}

// A scheduleLock is a lock with its history.
type scheduleLock struct {
	*Lock
	s         *schedule
	c         *scheduleClient
	name      string
	resources []string
	token     string
	from      time.Time     // when it was returned
	expected  time.Duration // that an extension by KeepAlive leaves at least, until the next one
	first     *scheduleHold // has been kept from the beginning

	mu         sync.Mutex
	extensions map[time.Time]time.Time // starts of those with another ttl, by their Until
	secure     bool                    // a quorum of healthy nodes has it
	doubted    bool                    // a healthy node has lost keys of it
	stopped    time.Time               // when its contexts were ended but not the lock
	robbed     time.Time               // when all nodes lost it
	unlocking  time.Time               // when Unlock was first called
	unlocked   time.Time               // when an Unlock had succeeded
	left       time.Time               // when Close had not to wait for it any more
	doing      bool                    // Do is running
	final      time.Time               // Until, when it had ended
	lapsed     time.Time               // when it was first seen without a quorum of nodes, after its end
	hadQuorum  time.Time               // when a quorum of nodes was last seen to have it
	parents    []*scheduleParent
	arrivals   int           // of extensions at nodes, until trigger
	trigger    chan struct{} // closed at the last of arrivals
}

// A scheduleHold is a context that KeepAlive or Do has made.
type scheduleHold struct {
	l      *scheduleLock
	ctx    context.Context //nolint:containedctx // It is what is tested.
	parent *scheduleParent
	called time.Time
}

// A scheduleParent is a caller's context.
type scheduleParent struct {
	ctx    context.Context //nolint:containedctx // As above.
	cancel context.CancelCauseFunc
	why    error

	mu    sync.Mutex
	ended time.Time
}

func (p *scheduleParent) end() {
	p.mu.Lock()
	if p.ended.IsZero() {
		p.ended = time.Now()
	}
	p.mu.Unlock()
	p.cancel(p.why)
}

func (p *scheduleParent) endedAt() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// newParent returns a context that ends within limit in one of three cases.
func (a *scheduleActor) newParent(limit time.Duration) *scheduleParent {
	p := &scheduleParent{why: fmt.Errorf("the caller of %s has ended", a.name)}
	p.ctx, p.cancel = context.WithCancelCause(a.s.t.Context())
	if a.rng.IntN(3) == 0 {
		after := between(a.rng, 0, limit)
		time.AfterFunc(after, func() {
			a.s.tracef("%v", p.why)
			p.end()
		})
	}
	return p
}

func (a *scheduleActor) run() {
	s, rng := a.s, a.rng
	time.Sleep(between(rng, 0, s.span/4))
	life := between(rng, s.ttl, 2*s.ttl)
	opts := []Option{WithRetryCount(3), WithRetryDelay(s.ttl / 3)}
	if rng.IntN(5) == 0 {
		opts = append(opts, WithMaxHold(magnitude(rng, s.ttl/2, s.span)))
	}
	if rng.IntN(4) == 0 {
		opts = append(opts, WithMinHold(between(rng, 1, life)))
	}
	if s.seed%2 == 0 { // Extensions and repairs keep counters, too.
		opts = append(opts, WithFencing())
	}
	resources := []string{a.name}
	if s.shared {
		resources = []string{"a"}
	}
	if rng.IntN(4) == 0 {
		resources = append(resources, pick(rng, "a", "b"))
	}
	if rng.IntN(2) == 0 {
		a.do(resources, life, opts)
		return
	}
	lock, err := a.c.r.Lock(s.t.Context(), resources, life, opts...)
	if err != nil {
		s.tracef("%s: %v", a.name, err)
		a.checkRefused(err)
		return
	}
	l := a.acquired(lock)
	if rng.IntN(10) > 0 {
		l.keepAlive(a.newParent(s.span))
	}
	a.live(l)
	if rng.IntN(8) == 0 {
		s.tracef("%s is abandoned", l.name)
		l.endParents()
		return
	}
	if rng.IntN(6) == 0 {
		// At the same instant as an extension.
		s.wg.Go(func() { _ = l.extend(life) })
	}
	l.unlock(rng)
}

// do uses Do.
func (a *scheduleActor) do(resources []string, life time.Duration, opts []Option) {
	s := a.s
	parent := a.newParent(s.span)
	failure := pick(a.rng, nil, errors.New("failure of the work"))
	var l *scheduleLock
	err := a.c.r.Do(parent.ctx, resources, life, func(ctx context.Context, lock *Lock) error {
		l = a.acquired(lock)
		l.doing = true
		l.holds(ctx, parent)
		a.live(l) //nolint:contextcheck // What it does has callers of its own.
		if a.rng.IntN(6) == 0 {
			l.unlock(a.rng) //nolint:contextcheck // As above.
		}
		l.begin()
		return failure
	}, opts...)
	s.tracef("%s Do: %v", a.name, err)
	if l == nil {
		if ended := parent.endedAt(); ended.IsZero() || !errors.Is(err, parent.ctx.Err()) && !errors.Is(err, parent.why) {
			a.checkRefused(err)
		}
		return
	}
	l.mu.Lock()
	l.doing, l.left = false, time.Now()
	l.mu.Unlock()
	l.checkDo(err, failure)
	l.end(nil)
	if err == nil {
		l.checkReleased()
	}
	l.endParents()
}

// acquired enters a lock that was got.
func (a *scheduleActor) acquired(lock *Lock) *scheduleLock {
	s := a.s
	l := &scheduleLock{
		Lock: lock, s: s, c: a.c, name: a.name, resources: lock.Resources(), token: lock.Token(), from: time.Now(),
		extensions: map[time.Time]time.Time{},
	}
	l.expected = validity(l.ttl, l.o.driftFactor) - l.ttl/3 - s.settle()
	l.hadQuorum = l.from
	s.mu.Lock()
	s.locks = append(s.locks, l)
	s.byToken[l.token] = l
	s.mu.Unlock()
	s.tracef("%s of %s acquired %q: token %.6s, ttl %v, until %v, min hold %v, max hold %v",
		l.name, l.c.name, l.resources, l.token, l.ttl, s.offset(l.Until()), l.o.minHold, l.o.maxHold)
	s.wg.Go(l.settled)
	return l
}

// settled notes whether nothing but its callers and the clock can end the lock.
func (l *scheduleLock) settled() {
	s := l.s
	time.Sleep(s.settle())
	have := 0
	for _, n := range s.healthy() {
		if n.has(l) {
			have++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if have >= s.need && !l.doubted && l.unlocking.IsZero() {
		l.secure = true
	}
}

// isSecure reports whether a quorum of healthy nodes has the lock and will keep it.
func (l *scheduleLock) isSecure() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.secure && (!l.s.outage.long() || !l.s.outage.overlaps(l.start, time.Now()))
}

func (l *scheduleLock) keepAlive(p *scheduleParent) {
	called := time.Now()
	ctx := l.KeepAlive(p.ctx)
	if now := time.Now(); !now.Equal(called) {
		l.s.failf("KeepAlive of %s took %v", l.name, now.Sub(called))
	}
	l.holds(ctx, p)
}

// holds watches a hold context that was just made.
func (l *scheduleLock) holds(ctx context.Context, p *scheduleParent) {
	h := &scheduleHold{l: l, ctx: ctx, parent: p, called: time.Now()}
	if got, ok := FromContext(ctx); !ok || got != l.Lock {
		l.s.failf("FromContext of %s: %v", l.name, got)
	}
	l.mu.Lock()
	if l.first == nil && h.called.Equal(l.from) {
		l.first = h
	}
	l.parents = append(l.parents, p)
	l.mu.Unlock()
	context.AfterFunc(ctx, h.ended)
}

func (l *scheduleLock) firstHold() *scheduleHold {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

func (l *scheduleLock) endParents() {
	l.mu.Lock()
	parents := slices.Clone(l.parents)
	l.mu.Unlock()
	for _, p := range parents {
		p.end()
	}
}

// live does things with the lock for a time.
func (a *scheduleActor) live(l *scheduleLock) {
	s, rng := a.s, a.rng
	end := time.NewTimer(between(rng, 0, s.span))
	defer end.Stop()
	ended := make(<-chan struct{})
	if h := l.firstHold(); h != nil && rng.IntN(4) > 0 {
		ended = h.ctx.Done()
	}
	var trigger chan struct{}
	if rng.IntN(3) == 0 {
		trigger = l.await(1 + rng.IntN(10))
	}
	for range 1 + rng.IntN(4) {
		select {
		case <-ended:
			if rng.IntN(2) == 0 {
				time.Sleep(magnitude(rng, 1, s.ttl)) // The work takes a while to stop.
			}
			return
		case <-end.C:
			return
		case <-trigger:
			return
		case <-time.After(magnitude(rng, time.Millisecond, s.span)):
		}
		l.check()
		switch rng.IntN(12) {
		case 0, 1, 2:
			l.keepAlive(a.newParent(s.span / 2))
		case 3:
			life := between(rng, s.ttl/2, 2*s.ttl)
			s.wg.Go(func() { _ = l.extend(life) })
		case 4:
			if s.loss {
				l.rob(rng)
			}
		case 5:
			time.Sleep(time.Until(l.Until()) - magnitude(rng, 1, time.Millisecond))
			return
		case 6, 7:
			a.ambush(l)
			trigger = l.await(1 + rng.IntN(len(s.nodes)))
			select {
			case <-end.C:
			case <-ended:
			case <-trigger:
				time.Sleep(between(rng, 0, s.delay))
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
func (a *scheduleActor) ambush(l *scheduleLock) {
	s := a.s
	if s.outage.to.IsZero() && a.rng.IntN(2) == 0 {
		for _, n := range s.healthy() {
			n.forget(false)
		}
	}
	if !s.loss || a.rng.IntN(3) == 0 {
		return
	}
	n := pick(a.rng, s.nodes...)
	s.tracef("%s loses the keys of %s", n.Name(), l.name)
	if !n.faulty {
		s.doubt(l.resources)
	}
	for _, res := range l.resources {
		n.hurt(res)
		s.must(n.Del(res))
	}
}

// doubt notes that a healthy node is about to lose keys.
func (s *schedule) doubt(resources []string) {
	for _, l := range s.allLocks() {
		if slices.ContainsFunc(l.resources, func(res string) bool { return slices.Contains(resources, res) }) {
			l.mu.Lock()
			l.secure, l.doubted = false, true
			l.mu.Unlock()
		}
	}
}

// await returns a channel that is closed when n extensions have arrived at nodes.
func (l *scheduleLock) await(n int) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrivals, l.trigger = n, make(chan struct{})
	return l.trigger
}

// rob takes the keys away on all nodes at once.
func (l *scheduleLock) rob(rng *rand.Rand) {
	s := l.s
	stolen := rng.IntN(2) == 0
	s.tracef("%s loses its keys, stolen: %v", l.name, stolen)
	s.doubt(l.resources)
	l.mu.Lock()
	if l.robbed.IsZero() {
		l.robbed = time.Now()
	}
	l.mu.Unlock()
	for _, n := range s.nodes {
		for _, res := range l.resources {
			if stolen {
				n.rob(res, 4*s.ttl)
			} else {
				n.hurt(res)
				s.must(n.Del(res))
			}
		}
	}
}

func (s *schedule) allLocks() []*scheduleLock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.locks)
}

// extend extends by another ttl, beside KeepAlive.
func (l *scheduleLock) extend(life time.Duration) error {
	s := l.s
	start, before := time.Now(), l.Until()
	l.mu.Lock()
	l.extensions[start.Add(validity(life, l.o.driftFactor))] = start
	l.mu.Unlock()
	err := l.Extend(s.t.Context(), life)
	s.tracef("%s is extended by %v: %v, until %v", l.name, life, err, s.offset(l.Until()))
	if l.Until().Before(before) {
		s.failf("Extend of %s shortened it from %v to %v", l.name, s.offset(before), s.offset(l.Until()))
	}
	return err
}

// begin notes that the lock is about to be released, end that it was.
func (l *scheduleLock) begin() {
	l.s.tracef("%s is about to be released, until %v", l.name, l.s.offset(l.Until()))
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.unlocking.IsZero() {
		return
	}
	l.unlocking = time.Now()
	l.s.wg.Go(func() {
		time.Sleep(time.Nanosecond) // An extension may have succeeded at the same instant.
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.final.IsZero() {
			l.final = l.Until()
		}
	})
}

func (l *scheduleLock) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.left.IsZero() {
		l.left = now
	}
	if err == nil && l.unlocked.IsZero() {
		l.unlocked = now
	}
}

// unlock releases the lock, again if it failed.
func (l *scheduleLock) unlock(rng *rand.Rand) {
	s := l.s
	for {
		l.begin()
		secure, start := l.isSecure(), time.Now()
		late := !start.Before(l.lapse(l.Until()))
		err := l.Unlock(s.t.Context())
		s.tracef("%s Unlock: %v", l.name, err)
		l.end(err)
		l.checkUnlock(err, start, secure, late)
		if err == nil {
			l.checkReleased()
			return
		}
		if !errors.Is(err, ErrNoQuorum) || rng.IntN(2) == 0 {
			return
		}
		time.Sleep(magnitude(rng, time.Millisecond, s.ttl))
	}
}

// extensionArrived is called when a node is about to carry out an extension.
func (l *scheduleLock) extensionArrived() {
	l.mu.Lock()
	if l.arrivals--; l.arrivals == 0 && l.trigger != nil {
		close(l.trigger)
	}
	l.mu.Unlock()
	if l.s.loss && l.s.holders(l) >= l.s.need {
		l.mu.Lock()
		l.hadQuorum = time.Now()
		l.mu.Unlock()
	}
}
