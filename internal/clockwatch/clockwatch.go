// Package clockwatch knows which locks are held and which of them are kept. It says when a deadline has
// passed, even if the machine has slept, and then has holds look at their end again. It does not know
// what a hold does then, or when its lock ends.
package clockwatch

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// tick is how often the clock is looked at while locks are kept.
	tick = 50 * time.Millisecond

	// MinSweep is the least number of locks at which those that have ended are swept out.
	MinSweep = 64
)

// A Watch knows the locks of a Redlock and the holds that keep some of them. The timers
// of the holds run on the monotonic clock, which may stand still while the machine
// sleeps; so the watch looks at the clock's lead, for all holds together, and has them
// look at their end again when it has grown.
type Watch struct {
	enter func() error // counts a hold as a running call
	exit  func()
	clock *Clock

	mu     sync.Mutex        // after a Lock's; enter is called with it, locks and holds never
	locks  map[Lock][]string // the resources of those that Want has named
	wanted map[string]Lock   // these, by resource
	sweep  int               // more locks than this are swept
	holds  map[Hold]struct{}
	ticker *time.Timer
	lead   time.Duration // the clock's, at the last look
}

// A Lock says why it has ended, nil while it is held.
type Lock interface{ Err() error }

// A Hold is a lock whose end is watched.
type Hold interface {
	Jumped()         // the clock's lead has grown
	End(cause error) // the contexts are to end
}

// New returns a watch without locks. enter counts a hold as a running call until exit, or says
// why there may be none any more.
func New(enter func() error, exit func(), clock *Clock) *Watch {
	return &Watch{
		enter: enter, exit: exit, clock: clock, sweep: MinSweep, locks: make(map[Lock][]string), wanted: make(map[string]Lock), holds: make(map[Hold]struct{}),
	}
}

// Add adds a lock. A lock that is never removed stays until it has ended and the number of
// locks has doubled, so that sweeping costs each lock a constant.
func (k *Watch) Add(l Lock) {
	k.mu.Lock()
	k.locks[l] = nil
	full := len(k.locks) > k.sweep
	if full {
		k.sweep = 2 * len(k.locks) // One caller sweeps.
	}
	k.mu.Unlock()
	if full {
		held := len(k.Held())
		k.mu.Lock()
		k.sweep = max(MinSweep, 2*held)
		k.mu.Unlock()
	}
}

// Remove removes a lock, if it is there.
func (k *Watch) Remove(l Lock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, res := range k.locks[l] {
		if k.wanted[res] == l {
			delete(k.wanted, res)
		}
	}
	delete(k.locks, l)
}

// Want has Wanted find a lock by its resources, until it is removed.
func (k *Watch) Want(l Lock, resources []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, there := k.locks[l]; !there {
		return
	}
	k.locks[l] = resources
	for _, res := range resources {
		k.wanted[res] = l
	}
}

// Wanted returns the locks with one of the resources that Want has named. It does not look at others, of which there may
// be many.
func (k *Watch) Wanted(resources []string) (found []Lock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, res := range resources {
		if l, there := k.wanted[res]; there && !slices.Contains(found, l) {
			found = append(found, l)
		}
	}
	return found
}

// Held returns the locks that are held now, in no order, and forgets those that have ended.
func (k *Watch) Held() []Lock {
	k.mu.Lock()
	all := slices.Collect(maps.Keys(k.locks))
	k.mu.Unlock()
	return slices.DeleteFunc(all, func(l Lock) bool {
		ended := l.Err() != nil
		if ended {
			k.Remove(l)
		}
		return ended
	})
}

// Size returns how many locks the watch knows, those that have ended included.
func (k *Watch) Size() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.locks)
}

// Keep enters a hold as a running call. If no more holds are allowed, it returns why.
func (k *Watch) Keep(h Hold) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	// Under mu, so that Close, which asks for all holds after it has closed, gets
	// this one or lets it not be added.
	if err := k.enter(); err != nil {
		return err
	}
	if len(k.holds) == 0 {
		_, k.lead = k.clock.Now()
		if k.ticker == nil {
			k.ticker = time.AfterFunc(tick, k.look)
		} else {
			k.ticker.Reset(tick)
		}
	}
	k.holds[h] = struct{}{}
	return nil
}

// Leave forgets a hold, if it is there.
func (k *Watch) Leave(h Hold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, there := k.holds[h]; !there {
		return
	}
	if delete(k.holds, h); len(k.holds) == 0 {
		k.ticker.Stop()
	}
	k.exit()
}

// Kept returns how many holds there are.
func (k *Watch) Kept() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.holds)
}

func (k *Watch) all() []Hold {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.holds))
}

// look is the ticker.
func (k *Watch) look() {
	k.mu.Lock()
	if len(k.holds) == 0 {
		k.mu.Unlock()
		return
	}
	k.ticker.Reset(tick)
	_, lead := k.clock.Now()
	grown := lead > k.lead
	k.lead = lead
	k.mu.Unlock()
	if grown {
		for _, h := range k.all() {
			h.Jumped()
		}
	}
}

// Close ends all contexts for the given reason. The holds stay until their locks are released.
func (k *Watch) Close(cause error) {
	for _, h := range k.all() {
		h.End(cause)
	}
}
