package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed6c881748/redlock/internal/admission"
	"github.com/seed6c881748/redlock/internal/calls"
	"github.com/seed6c881748/redlock/internal/waiting"
)

// errNoRetry is the cause in the event of a call in which a user's function panicked or ended the goroutine.
var errNoRetry = errors.New("a function of WithRetryIf or WithRetryBackoff has not returned")

// lock makes the attempts, and sends the event of the call's end even if a user's function panics.
func (a *acquisition) lock(ctx context.Context) (l *Lock, err error) {
	if !a.o.polling && a.o.retryCount != 0 {
		a.turn = min(a.o.turn, a.terms.validity/10)
	}
	ctx = a.r.begin(ctx, OpLock, a.resources)
	returned := false
	defer func() {
		if !returned {
			err = &waitError{op: OpLock, resources: a.resources, cause: errNoRetry}
		}
		a.tell(ctx, l, err)
	}()
	if l, err = a.attemptsInTime(ctx); err != nil && a.o.retryCount != 0 {
		a.nameOwn(err)
	}
	returned = true
	return l, err
}

// attemptsInTime is attempts within the limit of WithWait, if there is one.
func (a *acquisition) attemptsInTime(ctx context.Context) (*Lock, error) {
	if a.o.wait <= 0 {
		return a.attempts(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, a.o.wait)
	defer cancel()
	l, err := a.attempts(limited)
	if e := (*waitError)(nil); errors.As(err, &e) && errors.Is(e.cause, context.DeadlineExceeded) {
		e.cause = cmp.Or(ctx.Err(), fmt.Errorf("redlock: waited for %v", a.o.wait))
	}
	return l, err
}

// attempts makes attempts until one succeeds or a retry is not wanted. A call that is refused waits: package waiting
// says in which order, and link.Subscriptions how it hears of a release.
func (a *acquisition) attempts(ctx context.Context) (l *Lock, err error) {
	if a.o.polling || a.o.retryCount == 0 {
		return a.poll(ctx)
	}
	r, made, w := a.r, 0, (*waiter)(nil)
	began, behind, handOvers := time.Now(), false, r.handOvers.Load()
	if !r.line.IsEmpty() {
		w = a.newWaiter(began)
		rests := false
		r.line.DoAt(began, func(q *waiting.Queue, _ time.Time) { behind, rests = q.JoinBehind(w.queued) })
		if rests {
			r.wantHeld(a.resources)
			if l = w.rest(ctx); l != nil {
				return l, nil
			}
		}
	}
	if !behind {
		if l, err = a.attempt(ctx, 1, joining{}); err == nil {
			return l, nil
		}
		if ended := r.calls.Ended(ctx); ended != nil {
			return nil, a.endedBy(ended, err)
		}
		if !a.o.retries(err) {
			return nil, err
		}
		if made = 1; w == nil {
			w = a.newWaiter(began)
		}
		r.line.Do(func(q *waiting.Queue, now time.Time) { q.Join(w.queued, now) })
	}
	// Deferred, as retryIf may panic, and calls behind this one would wait forever.
	defer func() { r.line.Do(func(q *waiting.Queue, now time.Time) { q.Leave(w.queued, l != nil, now) }) }()
	r.wantHeld(a.resources)
	r.subscriptions.Want() //nolint:contextcheck // The listeners that it starts go on for later waiters.
	defer r.subscriptions.Unwant()
	if some, _ := r.subscriptions.Up(); !behind && errors.Is(err, ErrTaken) && (some || r.handOvers.Load() != handOvers) {
		// Ask again: now this call can get in line, or a release here found nobody to hand the lock to. If no node is
		// listened to yet, Listening is called later.
		r.line.Do(func(q *waiting.Queue, _ time.Time) { q.Again(w.queued) })
	}
	w.asked = time.Now()
	defer r.waits.Remove(&w.entry)
	return w.waitInLine(ctx, made, err)
}

// wantHeld tells those locks of this process that hold one of the resources that a call waits.
func (co *core) wantHeld(resources []string) {
	for _, l := range co.watch.Wanted(resources) {
		if l.Err() == nil {
			l.(*Lock).want()
		}
	}
}

// poll is attempts without waiting in line, be it here or on the nodes.
func (a *acquisition) poll(ctx context.Context) (*Lock, error) {
	var last error
	began := time.Now()
	overload := admission.Backoff{Random: rand.N[time.Duration]}
	entry := calls.Entry{OnBehalf: a.o.onBehalf}
	defer a.r.waits.Remove(&entry)
	for attempt := 1; ; attempt++ {
		l, err := a.attempt(ctx, attempt, joining{})
		if err == nil {
			return l, nil
		}
		last = worse(last, err)
		ended := a.r.calls.Ended(ctx)
		if ended == nil {
			if a.o.isLast(attempt - 1) {
				return nil, gaveUp(err, attempt-1, began)
			}
			if !a.o.retries(err) {
				return nil, err
			}
			overload.Note(isOverload(err), true)
			d := a.o.delay(attempt) // First, as a user's function may panic.
			if d < 0 {
				return nil, err
			}
			d = overload.Delay(d, a.o.nodeTimeout)
			a.r.waits.Note(&entry, a.waitingCall(attempt, err))
			a.r.counts.Waiting.Add(1)
			ended = a.r.calls.Sleep(ctx, d)
			a.r.counts.Waiting.Add(-1)
		}
		if ended != nil {
			return nil, a.endedBy(ended, last)
		}
	}
}

// worse returns the more informative one of last, the error of the attempts so far, and err, that of the latest one: an
// attempt that was cut short tells less. last may be nil.
func worse(last, err error) error {
	if last != nil && wasCut(err) {
		return last
	}
	return err
}

// waitInLine waits in line until the waiter has the lock or gives up. last is the error of its attempts so far.
func (w *waiter) waitInLine(ctx context.Context, attempts int, last error) (*Lock, error) {
	a := w.a
	a.r.counts.Waiting.Add(1)
	defer a.r.counts.Waiting.Add(-1)
	p, more := w.newTimer(last)
	if !more && last != nil {
		return nil, last
	}
	expect(p, waiting.ByTick, last) // Without messages of releases, there may be no second look.
	w.report(ctx, attempts, last)
	for ticks := 0; ; {
		why, s, l, ended := w.sleep(ctx, p, attempts)
		if l != nil {
			return l, nil
		}
		if ended != nil {
			return nil, w.endedBy(ended, last, attempts)
		}
		if why == waiting.ByKeep {
			a.r.line.Do(func(q *waiting.Queue, _ time.Time) { q.PassOn(w.queued) })
			continue
		}
		tick := why == waiting.ByTick
		if tick {
			ticks++
		}
		if tick || why == waiting.ByRelease || attempts == 0 {
			attempts++ // A second look, by turn or by expiry, is not counted.
		}
		l, err := w.attempt(ctx, why, s, attempts)
		if err == nil {
			return l, nil
		}
		last = w.saw(last, err) // Kept in case ctx ends next. After giving way, the lock is reserved for somebody else.
		if gaveWay(err) && putOff(p, why, err) {
			if tick {
				attempts, ticks = attempts-1, ticks-1 // The retry is still to come.
			}
			continue
		}
		if ended := a.r.calls.Ended(ctx); ended != nil {
			return nil, w.endedBy(ended, last, attempts)
		}
		if tick && a.o.isLast(ticks) {
			return nil, gaveUp(err, ticks, w.queued.Began())
		}
		if !more || !a.o.retries(err) {
			return nil, err
		}
		p.Note(isOverload(err), tick)
		if tick || why == waiting.ByHead && !p.Ticks(s) {
			if more = p.SetTick(s.Head, a.o.delay(ticks+1), time.Now()); !more {
				return nil, err
			}
		}
		expect(p, why, err)
		w.report(ctx, attempts, err)
	}
}

// newTimer returns the timer of the waiter's attempts. more is false if a user's backoff wants no further attempt.
func (w *waiter) newTimer(last error) (p *waiting.Timer, more bool) {
	p = waiting.NewTimer(w.queued, w.a.pace(), rand.N[time.Duration])
	p.Note(isOverload(last), true)
	return p, p.SetTick(false, w.a.o.delay(1), time.Now())
}

// holderOf returns the digest and the label of a holder that a refusal names; empty if it names none.
func holderOf(no *QuorumError) (holder, owner string) {
	if no != nil {
		for _, v := range no.Votes {
			if v.Holder != "" {
				return v.Holder, v.Owner
			}
		}
	}
	return "", ""
}

// waitingCall returns a description of the call after so many attempts, the last of which failed with err. It keeps no
// part of err, which belongs to the caller that gets it.
func (a *acquisition) waitingCall(attempts int, err error) calls.Call {
	c := calls.Call{Resources: a.resources, Owner: a.o.owner, Attempts: attempts}
	see(&c, err)
	return c
}

// see copies into c what a failed attempt says in its error err.
func see(c *calls.Call, err error) {
	if qe := (*QuorumError)(nil); errors.As(err, &qe) {
		c.Err = qe.reason
	}
	c.Holder, c.HolderOwner = holderOf(refusal(err))
}

func (a *acquisition) pace() waiting.Pace {
	o := a.o
	return waiting.Pace{
		Limit: o.nodeTimeout, MaxWait: maxWait, Counted: o.retryCount >= 0 || o.retryIf != nil || o.backoff != nil,
	}
}

// putOff makes the timer wait for the end of the reservation that an attempt has found. The resource is free: that is
// no failure, and retryIf is not asked. putOff returns false for a timed retry that counts nevertheless.
func putOff(p *waiting.Timer, why waiting.Reason, err error) bool {
	expect(p, why, err)
	return p.PutOff(time.Now()) || why != waiting.ByTick
}

// expect makes the timer wait for what the error err of a failed attempt tells: when holders or reservations end.
func expect(p *waiting.Timer, why waiting.Reason, err error) {
	no := refusal(err)
	if no == nil {
		p.ExpectNothing()
		return
	}
	var o waiting.Refusal
	o.Holder, _ = holderOf(no)
	for _, v := range no.Votes {
		if v.Holder == o.Holder {
			o.Left = max(o.Left, v.HolderTTL)
		}
	}
	o.Free, o.Known = freeIn(no.Votes, no.Need)
	p.Expect(why, o, time.Now())
}
