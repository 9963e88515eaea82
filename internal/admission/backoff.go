package admission

import "time"

// maxDelay bounds how far a series of overloads lengthens a shorter delay.
const maxDelay = 5 * time.Second

// A Backoff makes a caller wait longer after each further attempt that failed because of an overload: callers that are
// turned away must not be back at once, or they only make the queue longer.
type Backoff struct {
	Random func(d time.Duration) time.Duration // at least 0, and below d

	row int // how many attempts in a row have failed so
}

// Note takes how an attempt has ended: overload says that it failed because of one. An attempt that is not timed, a
// second look, may begin a row but does not lengthen it: a waiter's further looks must not put off its timed retries.
func (b *Backoff) Note(overload, timed bool) {
	switch {
	case !overload:
		b.row = 0
	case timed || b.row == 0:
		b.row++
	}
}

// Overloaded reports whether the latest attempt failed because of an overload.
func (b *Backoff) Overloaded() bool { return b.row > 0 }

// Delay returns how long to wait before a timed retry that would come after delay. In an overload that is the larger of
// delay and timeout, doubled up to maxDelay with each further attempt of the row, ± 50 %, and at least delay.
func (b *Backoff) Delay(delay, timeout time.Duration) time.Duration {
	if b.row == 0 {
		return delay
	}
	return max(delay, b.Look(max(delay, timeout)))
}

// Look returns how long to wait, in an overload, before a second look, which is not a timed attempt: timeout, doubled
// with each further attempt of the row, ± 50 %.
func (b *Backoff) Look(timeout time.Duration) time.Duration {
	d := timeout
	for i := 1; i < b.row && d < maxDelay; i++ {
		d = min(2*d, maxDelay)
	}
	return d/2 + b.Random(d)
}
