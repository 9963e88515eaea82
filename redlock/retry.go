package redlock

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
)

// retries reports whether a Lock is to retry an attempt that failed with err.
func (o *options) retries(err error) bool {
	if o.retryIf != nil {
		return o.retryIf(err)
	}
	return errors.Is(err, ErrTaken) || errors.Is(err, ErrNoQuorum)
}

// isLast reports whether a Lock is to make no more timed retries after so many.
func (o *options) isLast(retries int) bool { return o.retryCount >= 0 && retries >= o.retryCount }

// minBackoff is the least wait that a function of [WithRetryBackoff] can ask for: one that returns
// 0 would have a caller ask thousands of times a second.
const minBackoff = time.Millisecond

// delay returns how long to wait before the timed retry of this number, from 1. Negative: there must be none.
func (o *options) delay(number int) time.Duration {
	if o.backoff == nil {
		return jittered(o.retryDelay, o.retryJitter)
	}
	d := o.backoff(number)
	if d < 0 {
		return d
	}
	d = min(max(d, minBackoff), maxWait)
	return max(jittered(d, min(o.retryJitter, d)), minBackoff)
}

// jittered returns a random time, uniform in delay ± jitter.
func jittered(delay, jitter time.Duration) time.Duration {
	return delay - jitter + rand.N(2*jitter+1)
}

// gaveUp adds to the text of err that a Lock has used up its retries, while its context has not ended.
func gaveUp(err error, retries int, began time.Time) error {
	if e := (*QuorumError)(nil); errors.As(err, &e) && retries > 0 {
		made := "1 retry"
		if retries > 1 {
			made = fmt.Sprintf("%d retries", retries)
		}
		e.gaveUp = fmt.Sprintf("; gave up after %s in %s; WithWait waits longer", made, brief.Duration(time.Since(began)))
	}
	return err
}

// maxSearched is up to how many locks of this Redlock a failed call searches for the one in its way.
const maxSearched = 1000

// nameOwn adds to the error of a call that has waited that a lock of the same Redlock, perhaps the caller's own, is in
// the way.
func (a *acquisition) nameOwn(err error) {
	e := (*QuorumError)(nil)
	if !errors.As(err, &e) || !errors.Is(e, ErrTaken) || a.r.watch.Size() > maxSearched {
		return
	}
	holder, _ := holderOf(e)
	for _, l := range a.r.watch.Held() {
		l := l.(*Lock)
		if _, shared := a.shared(l.claim.resources); shared && holder != "" && l.Holder() == holder {
			e.gaveUp += "; a lock of this Redlock, in this process, holds it"
			return
		}
	}
}
