package redlock

import (
	"errors"
	"fmt"
	"sync"
)

// ErrFenced means that a [Guard] has refused a fence that is smaller than one that it has seen:
// a later holder has been there.
var ErrFenced = errors.New("redlock: fenced: a later holder has been here")

// A Guard keeps earlier holders of a lock away from a resource that lives in this process: a file, a device, a map.
// It lets a fence pass that is not smaller than the largest one that it has seen, since a holder may come more than
// once. A resource that others reach without this process must check by itself; see docs/fencing.md.
//
// One Guard is for one resource and the locks on it, as fences of other locks say nothing about
// these. It remembers nothing beyond its process: use [NewGuard] to go on where an earlier
// Guard has ended. The zero value is ready for use. A Guard is safe for concurrent use.
type Guard struct {
	mu   sync.Mutex // taken before all others: Do calls fn with it held
	seen int64
}

// NewGuard returns a Guard that has already seen a fence, for example the one that is stored with the resource.
func NewGuard(seen int64) *Guard { return &Guard{seen: seen} }

// Do calls fn if fence is not smaller than any that the Guard has seen, and returns its error. If fence is smaller,
// fn is not called and the error matches ErrFenced. A fence below 1, such as that of a lock without [WithFencing], is
// another error. The fence counts as seen even if fn fails or panics.
//
// Calls of fn do not overlap: if the check and the write were separate, a later holder's write
// could slip in between. For the same reason, a holder whose writes depend on what it reads
// must also call Do for the read. fn must not call the Guard.
func (g *Guard) Do(fence int64, fn func() error) error {
	if g == nil {
		return errNilGuard
	}
	if fn == nil {
		return errNilFunc
	}
	if fence < 1 {
		return fmt.Errorf("redlock: guard: fence %d: must be at least 1 (WithFencing gives a lock one)", fence)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if fence < g.seen {
		return fmt.Errorf("%w: fence %d is behind %d", ErrFenced, fence, g.seen)
	}
	g.seen = fence
	return fn()
}

// Seen returns the largest fence so far, 0 if there was none.
func (g *Guard) Seen() int64 {
	if g == nil {
		panic(errNilGuard)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen
}
