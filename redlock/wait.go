package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/admission"
	"github.com/seed6c881748/redlock/internal/calls"
	"github.com/seed6c881748/redlock/internal/waiting"
)

// attempts makes attempts until one succeeds or is not worth repeating. Whoever is refused waits; see package waiting
// for in which order, and link.Subscriptions for how a release is heard of.
func (a *acquisition) attempts(ctx context.Context) (l *Lock, err error) {
	if a.o.polling || a.o.retryCount == 0 {
		return a.poll(ctx)
	}
	r, made, w := a.r, 0, (*waiter)(nil)
	began, behind := time.Now(), false
	if !r.line.IsEmpty() {
		w = a.newWaiter(began)
		r.line.Do(func(q *waiting.Queue, _ time.Time) { behind = q.JoinBehind(w.queued) })
	}
	if !behind {
		if l, err = a.attempt(ctx, 1, turn{}); err == nil {
			return l, nil
		}
		if ended := r.calls.Ended(ctx); ended != nil {
			return nil, a.endedBy(ended, err)
		}
		if !a.o.retries(err) {
			return nil, err
		}
		made, w = 1, a.newWaiter(began)
		r.line.Do(func(q *waiting.Queue, now time.Time) { q.Join(w.queued, now) })
	}
	// Also if retryIf panics, or those behind would wait for ever.
	defer func() { r.line.Do(func(q *waiting.Queue, now time.Time) { q.Leave(w.queued, l != nil, now) }) }()
	r.wantHeld(a.resources)
	r.subscriptions.Want() //nolint:contextcheck // What it starts goes on for later waiters.
	defer r.subscriptions.Unwant()
	if some, _ := r.subscriptions.Up(); some && !behind && errors.Is(err, ErrTaken) {
		r.line.Do(func(q *waiting.Queue, _ time.Time) { q.Again(w.queued) }) // Now it can get in line. If not yet, Listening comes.
	}
	w.asked = time.Now()
	defer r.waits.Remove(&w.entry)
	return w.waitInLine(ctx, made, err)
}

// wantHeld tells the locks of this process that hold one of the resources that somebody waits.
func (co *core) wantHeld(resources []string) {
	for _, l := range co.watch.Wanted(resources) {
		if l.Err() == nil {
			l.(*Lock).want()
		}
	}
}

// A waiter is a call of Lock that waits.
type waiter struct {
	a      *acquisition
	queued *waiting.Waiter
	signal chan struct{} // 1: queued is to be looked at again
	entry  calls.Entry
	asked  time.Time // when its last attempt that was not cut short had ended
}

// newWaiter returns one whose call began then: those that begin together are in the order of their calls, however long
// each has taken to connect.
func (a *acquisition) newWaiter(began time.Time) *waiter {
	w := &waiter{a: a, signal: make(chan struct{}, 1)}
	w.queued = waiting.NewWaiter(a.keys, a.o.retryDelay, began, func() {
		select {
		case w.signal <- struct{}{}:
		default:
		}
	})
	w.entry = calls.Entry{Queued: w.queued, OnBehalf: a.o.onBehalf}
	return w
}

// poll is attempts without waiting in line, neither here nor on the nodes.
func (a *acquisition) poll(ctx context.Context) (*Lock, error) {
	var last error
	began := time.Now()
	overload := admission.Backoff{Random: rand.N[time.Duration]}
	entry := calls.Entry{OnBehalf: a.o.onBehalf}
	defer a.r.waits.Remove(&entry)
	for attempt := 1; ; attempt++ {
		l, err := a.attempt(ctx, attempt, turn{})
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
			d := a.o.delay(attempt) // First: it may be a function of the user's, which panics.
			if d < 0 {
				return nil, err
			}
			d = overload.Delay(d, a.o.nodeTimeout)
			a.r.waits.Note(&entry, a.waitingCall(attempt, err))
			a.r.counters.Waiting.Add(1)
			ended = a.r.calls.Sleep(ctx, d)
			a.r.counters.Waiting.Add(-1)
		}
		if ended != nil {
			return nil, a.endedBy(ended, last)
		}
	}
}

// worse is what to report of the attempts that failed with last, if there was
// one, and then with err: of one that was cut short, the one before tells more.
func worse(last, err error) error {
	if last != nil && wasCut(err) {
		return last
	}
	return err
}

// wasCut reports whether err is that of an attempt that was cut short.
func wasCut(err error) bool {
	cut := (*waitError)(nil)
	return errors.As(err, &cut)
}

// waitInLine has the waiter in line until it has the lock or gives up. last is what its attempts have seen so far.
func (w *waiter) waitInLine(ctx context.Context, attempts int, last error) (*Lock, error) {
	a := w.a
	a.r.counters.Waiting.Add(1)
	defer a.r.counters.Waiting.Add(-1)
	p := waiting.NewTimer(w.queued, a.pace(), rand.N[time.Duration])
	p.Note(isOverload(last), true)
	more := p.SetTick(false, 1, time.Now())
	if !more && last != nil {
		return nil, last
	}
	expect(p, waiting.ByTick, last) // Releases may never be heard of, and so no second look come.
	w.report(ctx, attempts, last)
	for ticks := 0; ; {
		why, s, ended := w.sleep(ctx, p)
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
			attempts++ // By turn and by expiry it takes a second look, which is not counted.
		}
		l, err := w.attempt(ctx, why, s, attempts)
		if err == nil {
			return l, nil
		}
		last = w.saw(last, err) // Also of one that gave way, should ctx end next: somebody else is to have the lock.
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
		if tick || why == waiting.ByTurn && !p.Ticks(s) {
			if more = p.SetTick(s.Head, ticks+1, time.Now()); !more {
				return nil, err
			}
		}
		expect(p, why, err)
		w.report(ctx, attempts, err)
	}
}

// sleep returns when an attempt is due, and why. It also returns when ctx or the Redlock has ended, with the error.
func (w *waiter) sleep(ctx context.Context, p *waiting.Timer) (why waiting.Reason, s waiting.State, ended error) {
	r := w.a.r
	for {
		now := time.Now()
		r.line.Do(func(q *waiting.Queue, _ time.Time) { s = q.State(w.queued) })
		why, at := p.Due(s)
		if ended := r.calls.Ended(ctx); ended != nil || !at.IsZero() && !at.After(now) {
			return why, s, ended
		}
		var alarm <-chan time.Time
		if !at.IsZero() {
			alarm = time.After(at.Sub(now))
		}
		select {
		case <-w.signal:
		case <-alarm:
		case <-ctx.Done():
		case <-r.calls.Closing:
		}
	}
}

// saw takes how an attempt has failed, and returns what the attempts have seen so far.
func (w *waiter) saw(last, err error) error {
	if !wasCut(err) {
		w.asked = time.Now()
	}
	return worse(last, err)
}

// endedBy is the error of a call that was ended in line, after so many attempts. If somebody else there has been answered
// since its last one, that tells more: most ask once, as they come, and one that is next as its wait is over is cut short.
// Also of one that is head by now: it may have become so because all waits end at the same time.
func (w *waiter) endedBy(cause, last error, attempts int) error {
	since := w.asked
	if last == nil || wasCut(last) {
		since = time.Time{}
	}
	if answered := w.answer(since); answered != nil {
		last = w.share(answered, max(attempts, 1))
	}
	return w.a.endedBy(cause, last)
}

// answer is what somebody else in line was answered; see [waiting.Queue.Answer].
func (w *waiter) answer(since time.Time) (answered error) {
	w.a.r.line.Do(func(q *waiting.Queue, _ time.Time) { answered = q.Answer(w.queued, since) })
	return answered
}

// attempt makes an attempt, or has one that another waiter has made stand for it.
func (w *waiter) attempt(ctx context.Context, why waiting.Reason, s waiting.State, number int) (*Lock, error) {
	a, line := w.a, w.a.r.line
	if !s.Head {
		if answered := w.answer(w.recent(s)); answered != nil {
			return nil, w.share(answered, number)
		}
		l, err := a.attempt(ctx, number, turn{}) // Nobody else asks.
		line.Do(func(q *waiting.Queue, now time.Time) { q.Remember(w.queued, forOthers(err), now) })
		return l, err
	}
	// A release that is heard of is the turn: where the nodes' lines differ, all that were told come, and one wins.
	// Nobody gives way who hears of too few releases to have a turn of its own, or it would find each one left to
	// another. As it becomes head it does, and gets in line, in any case: if it does not listen yet, it does so soon.
	some, enough := a.r.subscriptions.Up()
	t := turn{began: w.queued.Began(), yields: why == waiting.ByTurn || enough && why != waiting.ByRelease}
	t.inLine = t.yields || some
	line.Do(func(q *waiting.Queue, _ time.Time) { q.Begin(w.queued, t.inLine) })
	if why == waiting.ByRelease {
		a.r.counters.Woken.Add(1)
	}
	l, err := a.attempt(ctx, number, t)
	if err != nil && !gaveWay(err) {
		holder, _ := holderOf(refusal(err))
		line.Do(func(q *waiting.Queue, now time.Time) { q.Refused(w.queued, forOthers(err), holder, now) })
	}
	return l, err
}

// recent is since when an answer to another waiter may stand for one of w: since its own last retry where nobody asks
// regularly, and otherwise longer ago than any head should need for the next.
func (w *waiter) recent(s waiting.State) time.Time {
	o := w.a.o
	age := 2 * (o.retryDelay + o.retryJitter + o.nodeTimeout)
	if s.Alone {
		age = max(o.retryDelay-o.retryJitter, waiting.MinTick)
	}
	return time.Now().Add(-age)
}

// forOthers is the refusal of an attempt as others in line may be told it, nil if there is none.
// The caller may do with its own what it likes.
func forOthers(err error) error {
	if no := refusal(err); no != nil {
		return no.clone()
	}
	return nil
}

// holderOf returns a holder that a refusal names, by digest and label; empty if it names none.
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

// share is the error for w when another waiter was answered so.
func (w *waiter) share(answered error, number int) error {
	e := refusal(answered).clone()
	e.Resources, e.Attempt = slices.Clone(w.a.resources), number
	return e
}

// report notes, and sends an event, about the waiting, after an attempt that failed with err.
func (w *waiter) report(ctx context.Context, attempts int, err error) {
	w.a.r.waits.Note(&w.entry, w.a.waitingCall(attempts, err))
	if r := w.a.r; r.wants(ctx, EventWaiting, nil) {
		if no := refusal(err); no != nil {
			err = no.clone()
		}
		position := 0
		r.line.Do(func(q *waiting.Queue, _ time.Time) { position = q.Position(w.queued) })
		r.send(ctx, Event{
			Kind: EventWaiting, Op: OpLock, Resources: slices.Clone(w.a.resources), Owner: w.a.o.owner, Attempt: attempts,
			Took: time.Since(w.queued.Began()), Position: position, Err: err,
		})
	}
}

// waitingCall describes the call, after so many attempts of which the last one failed with err. It keeps none
// of err, which may be changed by whom it is returned to.
func (a *acquisition) waitingCall(attempts int, err error) calls.Call {
	c := calls.Call{Resources: a.resources, Owner: a.o.owner, Attempts: attempts}
	see(&c, err)
	return c
}

// see has c show what an attempt has seen that failed with err.
func see(c *calls.Call, err error) {
	if qe := (*QuorumError)(nil); errors.As(err, &qe) {
		c.Err = qe.reason
	}
	c.Holder, c.HolderOwner = holderOf(refusal(err))
}

// errNoRetry is the cause in the event of a call that a user's function has ended, by a panic or with its goroutine.
var errNoRetry = errors.New("a function of WithRetryIf or WithRetryBackoff has not returned")

// lock makes the attempts, and sends the event of the call's end, also if a user's function panics.
func (a *acquisition) lock(ctx context.Context) (l *Lock, err error) {
	ctx = a.r.begin(ctx, OpLock, a.resources)
	err = &waitError{op: OpLock, resources: a.resources, cause: errNoRetry}
	defer func() { a.tell(ctx, l, err) }()
	if l, err = a.attemptsInTime(ctx); err != nil && a.o.retryCount != 0 {
		a.nameOwn(err)
	}
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

func (a *acquisition) pace() waiting.Pace {
	o := a.o
	return waiting.Pace{
		Delay: o.delay, Limit: o.nodeTimeout, MaxWait: maxWait, Counted: o.retryCount >= 0 || o.retryIf != nil || o.backoff != nil,
	}
}

// putOff has the timer wait for the end of the reservation that an attempt has found: the resource is free, which is
// no failure, and nothing to ask retryIf about. It returns false for a timed retry that counts all the same.
func putOff(p *waiting.Timer, why waiting.Reason, err error) bool {
	expect(p, why, err)
	return p.PutOff(time.Now()) || why != waiting.ByTick
}

// expect has the timer wait for what an attempt that failed with err has seen.
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
