package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/calls"
	"github.com/seed6c881748/redlock/internal/link"
	"github.com/seed6c881748/redlock/internal/waiting"
)

// A waiter is a call of Lock that waits.
type waiter struct {
	a      *acquisition
	queued *waiting.Waiter
	signal chan struct{} // holds one: look at queued again
	entry  calls.Entry
	asked  time.Time // when its last attempt that was not cut short had ended
	rested bool      // it did not ask at first, as a lock of this process had what it wants
}

// newWaiter returns the waiter of a call that began at that time. Waiters stand in the order in which their calls began,
// however long each has taken to connect.
func (a *acquisition) newWaiter(began time.Time) *waiter {
	w := &waiter{a: a, signal: make(chan struct{}, 1)}
	w.queued = waiting.NewWaiter(a.keys, a.o.retryDelay, began, func() {
		select {
		case w.signal <- struct{}{}:
		default:
		}
	})
	if a.turn > 0 {
		w.queued.Caller = a
	}
	w.entry = calls.Entry{Queued: w.queued, OnBehalf: a.o.onBehalf}
	return w
}

// sleep returns when an attempt is due, and why. It also returns the error when ctx or the Redlock has ended. A lock
// that was passed on to the waiter comes first, whatever else has happened; attempts is how many were made.
func (w *waiter) sleep(ctx context.Context, p *waiting.Timer, attempts int) (why waiting.Reason, s waiting.State, l *Lock, ended error) {
	r := w.a.r
	for {
		now := time.Now()
		s, passed := w.state(true)
		why, at := p.Due(s)
		ended = r.calls.Ended(ctx)
		due := ended != nil || !at.IsZero() && !at.After(now)
		if passed == nil && due {
			_, passed = w.state(false)
		}
		if passed != nil {
			if l = w.receive(passed, attempts); l != nil {
				return 0, s, l, nil
			}
			continue
		}
		if due {
			return why, s, nil, ended
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

// rest sleeps until the waiter is passed a lock, or must ask the nodes for one.
func (w *waiter) rest(ctx context.Context) *Lock {
	w.rested = true
	w.a.r.counts.Waiting.Add(1)
	select {
	case <-w.signal:
	case <-ctx.Done():
	case <-w.a.r.calls.Closing:
	}
	w.a.r.counts.Waiting.Add(-1)
	if _, passed := w.state(false); passed != nil {
		return w.receive(passed, 0)
	}
	return nil
}

// state returns the waiter's state in line when it goes to sleep. Without sleeps, it ends the sleep: nobody passes a
// lock on to the waiter from then on. passed is a lock that was passed before.
func (w *waiter) state(sleeps bool) (s waiting.State, passed *Lock) {
	w.a.r.line.Do(func(q *waiting.Queue, _ time.Time) {
		var got any
		if sleeps {
			s, got = q.Sleep(w.queued)
		} else {
			got = q.Wake(w.queued)
		}
		passed, _ = got.(*Lock)
	})
	return s, passed
}

// receive returns the lock that the waiter was passed, after that many attempts. If the lock's validity is over, or Close
// has begun, it gives the lock back and returns nil, and the waiter is in line again.
func (w *waiter) receive(l *Lock, attempts int) *Lock {
	r := w.a.r
	if l.Err() != nil || r.calls.IsClosing() { // Closed: whoever got it could not release it any more.
		l.share.end()
		l.claim.wakeOthers()
		for i, n := range r.nodes {
			n.Release(&l.claim.Trace, i)
		}
		r.line.Do(func(q *waiting.Queue, now time.Time) { q.Return(w.queued, now) })
		return nil
	}
	l.attempts = int32(attempts + 1)
	r.watch.Add(l, &l.entry)
	r.counts.Acquired.Add(1)
	r.counts.Passed.Add(1)
	return l
}

// saw notes that an attempt has failed with err, and returns the more informative error of it and last.
func (w *waiter) saw(last, err error) error {
	if !wasCut(err) {
		w.asked = time.Now()
	}
	return worse(last, err)
}

// endedBy returns the error of a call that was ended in line, after that many attempts. An answer to another waiter
// here since the call's last attempt tells more: most waiters ask once, as they come, and an attempt that begins as the
// wait ends is cut short. This holds for the head as well, which may be head only because all waits end at the same
// time.
func (w *waiter) endedBy(cause, last error, attempts int) error {
	since := w.asked
	if last == nil || wasCut(last) {
		since = time.Time{}
	}
	if answered := w.answer(since); answered != nil {
		last = w.share(answered, max(attempts, 1))
	} else if last == nil && w.rested {
		last = w.a.takenHere()
	}
	return w.a.endedBy(cause, last)
}

var errHere = errors.New("not asked, as a lock of this process had it, in a turn")

// takenHere returns the refusal of a call that has asked no node, since this process had what it wants.
func (a *acquisition) takenHere() error {
	e := a.unasked(1, func(*link.Link) error { return errHere })
	e.reason = ErrTaken
	return e
}

// answer returns what another waiter in line was answered since then; see [waiting.Queue.Answer].
func (w *waiter) answer(since time.Time) (answered error) {
	w.a.r.line.Do(func(q *waiting.Queue, _ time.Time) { answered = q.Answer(w.queued, since) })
	return answered
}

// attempt makes an attempt, or takes the result of another waiter's instead.
func (w *waiter) attempt(ctx context.Context, why waiting.Reason, s waiting.State, number int) (*Lock, error) {
	a, line := w.a, w.a.r.line
	if !s.Head {
		if answered := w.answer(w.recent(s)); answered != nil {
			return nil, w.share(answered, number)
		}
		l, err := a.attempt(ctx, number, joining{}) // Nobody else asks.
		line.Do(func(q *waiting.Queue, now time.Time) { q.Remember(w.queued, forOthers(err), now) })
		return l, err
	}
	// After a release message, ask at once. Where the nodes' lines differ, several waiters are told, and one of them wins.
	// Otherwise yield if a quorum of nodes can tell us of releases. Without one, a timed retry must not yield: it would
	// find each release left to another waiter. A new head always yields and gets in line: it listens soon.
	some, enough := a.r.subscriptions.Up()
	t := joining{began: w.queued.Began(), yields: why == waiting.ByHead || enough && why != waiting.ByRelease}
	t.inLine = t.yields || some
	line.Do(func(q *waiting.Queue, _ time.Time) { q.Begin(w.queued, t.inLine) })
	if why == waiting.ByRelease {
		a.r.counts.Woken.Add(1)
	}
	l, err := a.attempt(ctx, number, t)
	switch {
	case err == nil || gaveWay(err):
	case errors.Is(err, ErrTaken):
		holder, _ := holderOf(refusal(err))
		line.Do(func(q *waiting.Queue, now time.Time) { q.Refused(w.queued, forOthers(err), holder, now) })
	default: // A release message stays unused: no quorum has said that the lock is held.
		line.Do(func(q *waiting.Queue, now time.Time) { q.Remember(w.queued, forOthers(err), now) })
	}
	return l, err
}

// recent returns since when an answer to another waiter may stand for one of w: since its own last retry if nobody asks
// regularly, and otherwise longer ago than any head should need for the next one.
func (w *waiter) recent(s waiting.State) time.Time {
	o := w.a.o
	age := 2 * (o.retryDelay + o.retryJitter + o.nodeTimeout)
	if s.Alone {
		age = max(o.retryDelay-o.retryJitter, waiting.MinTick)
	}
	return time.Now().Add(-age)
}

// forOthers returns a copy of an attempt's refusal for others in line, nil if there is none. The caller may change its
// own.
func forOthers(err error) error {
	if no := refusal(err); no != nil {
		return no.clone()
	}
	return nil
}

// share returns the error for w when another waiter got that answer.
func (w *waiter) share(answered error, number int) error {
	e := refusal(answered).clone()
	e.Resources, e.Attempt = slices.Clone(w.a.resources), number
	return e
}

// report notes that the call waits, and sends an event, after an attempt that failed with err.
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
