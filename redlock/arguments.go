package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/lines"
	"github.com/seed6c881748/redlock/internal/reserved"
)

// reservedMark is in every key of the library's own.
const reservedMark = reserved.Mark

const (
	// maxResources bounds the resources of one lock. A node carries out a script without interruption, so a larger lock
	// would keep all other callers waiting there.
	maxResources = 4096

	// maxKeyBytes bounds the keys of a lock together. With maxResources, it keeps the answer to every script far below
	// the most that a connection reads of one reply (1 MiB). The longest answer is that of a release: a channel, about
	// as long as a key, for each of them.
	maxKeyBytes = 512 << 10
)

// maxWait bounds the durations that options set: a longer one is given in the wrong unit, and sums of them must not
// overflow.
const maxWait = 24 * time.Hour

// minWait is the least duration above 0.
const minWait = 10 * time.Microsecond

// A target is what a call is about: the resources, and their keys on the nodes. It is made once for the call, and all
// its claims share it.
type target struct {
	prefix    string
	resources []string // sorted, each once
	keys      []any    // prefix + resource, boxed

	counters []any // the counters of fencing; nil: without
	counted  []any // the keys, then the counters

	ringing sync.Once
	rung    []any // the keys, then their bells; made when first needed

	// Space for one resource: most locks have one, and then need no further allocation.
	oneResource [1]string
	oneKey      [1]any
	oneRung     [2]any
}

func (t *target) aim(prefix string, resources []string) error {
	if len(resources) == 0 {
		return errors.New("redlock: no resources")
	}
	resources = append(t.oneResource[:0], resources...)
	slices.Sort(resources)
	resources = slices.Compact(resources)
	if len(resources) > maxResources {
		return fmt.Errorf("redlock: %d resources: at most %d can be locked together", len(resources), maxResources)
	}
	keys, bytes := t.oneKey[:0], 0
	for _, res := range resources {
		if res == "" {
			return fmt.Errorf("redlock: empty resource in %q", resources)
		}
		key := prefix + res
		if reserved.Has(key) {
			return fmt.Errorf("redlock: resource %q: keys with %q are reserved", res, reservedMark)
		}
		keys = append(keys, key)
		bytes += len(key)
	}
	if bytes > maxKeyBytes {
		return fmt.Errorf("redlock: the keys of %s have %d bytes: at most %d are allowed", brief.Count(len(resources), "resource"), bytes, maxKeyBytes)
	}
	t.prefix, t.resources, t.keys = prefix, resources, keys
	return nil
}

// shared returns the first of the resources that is also one of the target's.
func (t *target) shared(resources []string) (resource string, found bool) {
	for _, res := range resources {
		if _, found = slices.BinarySearch(t.resources, res); found {
			return res, true
		}
	}
	return "", false
}

func (t *target) addCounters() {
	t.counted = slices.Concat(t.keys, t.keys)
	t.counters = t.counted[len(t.keys):]
	for i, res := range t.resources {
		t.counters[i] = t.prefix + reservedMark + fences.Mark + res
	}
}

// withBells returns the keys followed by their bells, as scripts need them that put a client in line, or tell those in
// line.
func (t *target) withBells() []any {
	t.ringing.Do(func() {
		t.rung = append(append(t.oneRung[:0], t.keys...), t.keys...)
		for i, res := range t.resources {
			t.rung[len(t.keys)+i] = lines.Bell(t.prefix, reservedMark, res)
		}
	})
	return t.rung
}

// The errors of calls that ask no node: on something that is no Redlock or no Lock, or without a context. Methods that
// return an error return one of these; the others panic with it.
var (
	errNilRedlock  = errors.New("redlock: nil *Redlock: did New return an error?")
	errZeroRedlock = errors.New("redlock: this Redlock is a zero value: make it with New")
	errNilLock     = errors.New("redlock: nil *Lock: did the call that should have made it return an error?")
	errZeroLock    = errors.New("redlock: this Lock is a zero value: only a Redlock makes locks")
	errNilContext  = errors.New("redlock: nil context")
	errNilFunc     = errors.New("redlock: nil function")
	errNilGuard    = errors.New("redlock: nil *Guard")
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// misused returns invalid, or errNilContext if ctx is nil.
func misused(ctx context.Context, invalid error) error {
	if invalid == nil && ctx == nil {
		return errNilContext
	}
	return invalid
}

// wrongIf returns an error with that text if wrong, else nil.
func wrongIf(wrong bool, format string, args ...any) error {
	if !wrong {
		return nil
	}
	return fmt.Errorf("redlock: "+format, args...)
}

// outside returns an error about a duration that is negative or longer than maxWait.
func outside(what string, d time.Duration) error {
	return cmp.Or(below(what, d), wrongIf(d > maxWait, what+" %v: must not exceed %v", d, maxWait))
}

// below returns an error about a duration that is negative, or was given as a number without its unit.
func below(what string, d time.Duration) error {
	return cmp.Or(
		wrongIf(d < 0, what+" %v: must not be negative", d),
		wrongIf(0 < d && d < minWait, what+" %v: is below %v; a unit is missing, as in %d*time.Millisecond", d, minWait, d),
	)
}
