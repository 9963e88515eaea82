package waiting

import (
	"time"

	"github.com/seed6c881748/redlock/internal/admission"
)

// A Reason is why a waiter makes an attempt, or counts one.
type Reason int

// The reasons.
const (
	ByHead    Reason = iota // it has become head, or can get in line now
	ByRelease               // it was told of a release
	ByExpiry                // the holder's keys, or a reservation, should have expired
	ByKeep                  // no attempt: it has kept what it was told of for long enough
	ByTick                  // its retry delay is over: a timed retry
)

// A Pace says how often a waiter tries by itself.
type Pace struct {
	Limit   time.Duration // the node timeout
	MaxWait time.Duration // the longest wait for an expiry
	Counted bool          // it has to know of each retry, also while it is no head
}

// A Timer says how long a waiter sleeps between two attempts.
type Timer struct {
	random   func(d time.Duration) time.Duration // at least 0, and below d
	w        *Waiter
	pace     Pace
	tick     time.Time // when the next timed retry is due
	putOff   bool      // it has been put off, to the end of a reservation
	expiry   time.Time // when the holder's keys should have expired; zero: not known
	extended int       // how often they had not expired by then, since the last timed retry
	after    string    // digest of the holder that was waited for
	ends     time.Time // when its keys were to expire

	overload admission.Backoff
}

// NewTimer returns the timer of a waiter that is in line. random is at least 0, and below d.
func NewTimer(w *Waiter, p Pace, random func(d time.Duration) time.Duration) *Timer {
	return &Timer{random: random, w: w, pace: p, overload: admission.Backoff{Random: random}}
}

// Note takes in whether an attempt has failed because of an overload, and whether it was a timed
// one; see [admission.Backoff].
func (t *Timer) Note(overload, timed bool) { t.overload.Note(overload, timed) }

// MinTick is the least time between two timed retries of a waiter that is not
// head, which costs no round trip that would slow it down.
const MinTick = time.Millisecond

// SetTick sets when the next timed retry is due, d from now, or at once and false if there is to be none: d is negative.
func (t *Timer) SetTick(head bool, d time.Duration, now time.Time) (more bool) {
	t.putOff = false
	if d < 0 {
		t.tick = now
		return false
	}
	d = t.overload.Delay(d, t.pace.Limit)
	if !head {
		d = max(d, MinTick)
	}
	t.tick = now.Add(d)
	return true
}

// Ticks reports whether a waiter that is not head needs a timer: its retries have to
// be counted, or nobody asks for it.
func (t *Timer) Ticks(s State) bool {
	return t.pace.Counted || s.Alone
}

// Due is the next reason for an attempt, and when it is due; zero: not before the waiter is notified.
func (t *Timer) Due(s State) (why Reason, at time.Time) {
	if s.Now {
		return ByHead, t.w.began
	}
	earliest := func(r Reason, then time.Time) {
		if !then.IsZero() && (at.IsZero() || then.Before(at)) {
			why, at = r, then
		}
	}
	if s.Head || t.Ticks(s) {
		earliest(ByTick, t.tick)
	}
	if s.Head {
		earliest(ByRelease, s.TryAt)
		earliest(ByExpiry, t.expiry)
		earliest(ByKeep, s.KeepUntil)
	}
	return why, at
}

// expiryMargin is added to the expiry of a holder's keys, or of a reservation: Redis counts
// in whole milliseconds, and others may come, too.
const expiryMargin = 2 * time.Millisecond

// MaxPutOff is the longest that a timed retry is put off.
const MaxPutOff = 2*ReservedFor + 3*expiryMargin

// A Refusal says for how long the resources of an attempt are taken.
type Refusal struct {
	Holder string        // digest of a holder; empty: none was named
	Left   time.Duration // how long its keys live
	Free   time.Duration // after which enough nodes may grant the lock; those that were not waited for may do so now
	Known  bool          // Free is known
}

// Expect sets when enough of the holder's keys should have expired, as far as a failed attempt has
// shown that. If the holder has extended its lock instead, the next guess is later each time: a
// kept lock with a short ttl must not be asked about all the time. A guess that came too early,
// because not all nodes had answered, is no sign of an extension.
func (t *Timer) Expect(why Reason, no Refusal, now time.Time) {
	t.ExpectNothing()
	if why != ByTick && t.overload.Overloaded() {
		// It was told of a release, but an overload kept it from looking. It looks again soon, uncounted.
		t.expiry = now.Add(t.overload.Look(t.pace.Limit))
		return
	}
	ends := now.Add(no.Left)
	switch {
	case why == ByTick, no.Holder != t.after, no.Holder == "": // Another reservation is no extension.
		t.extended = 0
	case why == ByExpiry && ends.After(t.ends.Add(expiryMargin)):
		t.extended = min(t.extended+1, 10)
	}
	t.after, t.ends = no.Holder, ends
	if no.Known && no.Free <= t.pace.MaxWait {
		wait := (no.Free + expiryMargin + t.random(2*expiryMargin)) << t.extended
		t.expiry = now.Add(min(wait, t.pace.MaxWait))
	}
}

// PutOff moves the next timed retry to the end of the reservation that an attempt has found: if the process that the
// reservation is for does not come, nobody else is told. It does so once for a retry, and then returns false: the retry
// counts even if it gives way again. Otherwise a call with three retries might wait without end. PutOff also returns
// false if something keeps the resource for longer than reservations last.
func (t *Timer) PutOff(now time.Time) bool {
	if t.putOff || t.tick.After(t.expiry) || t.expiry.Sub(now) > MaxPutOff {
		return false
	}
	t.putOff, t.tick = true, t.expiry
	t.ExpectNothing()
	return true
}

// ExpectNothing is Expect after an attempt that was cut short.
func (t *Timer) ExpectNothing() { t.expiry = time.Time{} }
