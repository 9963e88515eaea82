package redlock

import (
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/lease"
)

// terms are a ttl and what follows from it; see [lease.Drift] and [lease.Validity]. They are not changed.
type terms struct {
	ttl      time.Duration
	factor   float64       // of the drift
	validity time.Duration // how long a lock may be relied on, from the instant before its first request
	ms       any           // the ttl as nodes get it, boxed
}

// maxTTL bounds the ttl: a longer one is given in the wrong unit.
const maxTTL = 366 * 24 * time.Hour

// check returns an error if terms are not allowed, before any I/O.
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

// serverMillis returns the ttl as a node gets it: whole milliseconds, rounded up. Rounding down would let a key expire
// before the validity that the client computes from the exact value; a ttl below 1 ms would even become 0.
func serverMillis(ttl time.Duration) int64 {
	ms := ttl.Milliseconds()
	if ttl%time.Millisecond != 0 {
		ms++
	}
	return ms
}
