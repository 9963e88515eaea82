package redlock

import (
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/lease"
)

// Terms are a ttl and what follows from it; see [lease.Drift] and [lease.Validity]. They are not changed.
type terms struct {
	ttl      time.Duration
	factor   float64       // of the drift
	validity time.Duration // how long a lock may be relied on, from the instant before its first request
	ms       any           // the ttl as nodes are told it, boxed
}

// terms returns those of a ttl, or what is wrong with it. Most calls of a program have the same.
func (co *core) terms(ttl time.Duration, o *options) (*terms, error) {
	le := co.lastTerms.Load()
	if le == nil || le.ttl != ttl || le.factor != o.driftFactor {
		le = &terms{ttl, o.driftFactor, lease.Validity(ttl, o.driftFactor), serverMillis(ttl)}
		co.lastTerms.Store(le)
	}
	return le, o.check(le)
}

// maxTTL bounds the ttl: what is longer is a mistake of units.
const maxTTL = 366 * 24 * time.Hour

// check reports what is wrong with a lease, before any I/O.
func (o *options) check(le *terms) error {
	switch ttl := le.ttl; {
	case ttl < time.Millisecond:
		return fmt.Errorf("redlock: ttl %v: must be at least 1ms", ttl)
	case ttl > maxTTL:
		return fmt.Errorf("redlock: ttl %v: must not exceed a year; is it given in another unit?", ttl)
	case le.validity <= 0:
		return fmt.Errorf("redlock: ttl %v: nothing is left of it after the drift allowance of %v", ttl, lease.Drift(ttl, o.driftFactor))
	case o.quarantine > 0 && ttl > o.quarantine:
		return fmt.Errorf("redlock: ttl %v: must not exceed the quarantine's maxTTL %v", ttl, o.quarantine)
	case o.fencing && ttl > o.fenceLife:
		return fmt.Errorf("redlock: ttl %v: must not exceed the fence life %v", ttl, o.fenceLife)
	default:
		return nil
	}
}

// attemptTimeouts is how many node timeouts an attempt may take; see [WithNodeTimeout].
const attemptTimeouts = 3

// outlasting returns a lease whose validity goes on for the min hold after any attempt that succeeds: le, or one
// with a longer ttl. With less, keys could end before the min hold does that is counted from the end of the
// attempt, be it those of a holder that dies: a release never lengthens their life.
func (co *core) outlasting(le *terms, o *options) (*terms, error) {
	if o.minHold == 0 {
		return le, nil
	}
	if o.minHold > le.ttl {
		return nil, fmt.Errorf("redlock: min hold %v: must not exceed the ttl %v", o.minHold, le.ttl)
	}
	attempt := min(attemptTimeouts*o.nodeTimeout, le.validity)
	least := lease.TTLFor(o.minHold, attempt, le.factor)
	if least <= le.ttl {
		return le, nil
	}
	longer, err := co.terms(least, o)
	if err != nil {
		return nil, fmt.Errorf("redlock: min hold %v: the ttl of %v is too short for it and an attempt: %w", o.minHold, le.ttl, err)
	}
	return longer, nil
}

// serverMillis is the ttl as a node is told it: whole milliseconds, rounded up. Rounding down would let a key expire
// before the validity that the client computes from the exact value; a ttl below 1 ms would even become 0.
func serverMillis(ttl time.Duration) int64 {
	ms := ttl.Milliseconds()
	if ttl%time.Millisecond != 0 {
		ms++
	}
	return ms
}
