// Package clockwatch knows which locks are held and which of them are kept. It knows when a deadline has passed, even
// if the machine has slept, and then makes holds look at their end again. It does not know what a hold does then, or
// when its lock ends.
package clockwatch

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// tick is how often the clock is looked at while locks are kept.
const tick = 50 * time.Millisecond

// A Watch knows the locks of a Redlock and the holds that keep some of them. The timers of the holds run on the
// monotonic clock, which may stand still while the machine sleeps. So the watch checks the clock's lead, for all holds
// together, and makes them look at their end again when it has grown.
type Watch struct {
	enter func() error // counts a hold as a running call
	exit  func()
	clock *Clock

	mu     sync.Mutex // taken after a Lock's; enter is called with it held, locks and holds never
	locks  []seat
	next   int             // the next lock to check for its end
	wanted map[string]Lock // the locks that Want has named, by resource
	holds  map[Hold]struct{}
	ticker *time.Timer
	lead   time.Duration // the clock's, at the last look
}

// A Hold is a lock whose end is watched.
type Hold interface {
	Jumped() // the clock's lead has grown
	Closed() // its contexts must end
}

// New returns a watch without locks. enter counts a hold as a running call until exit, or returns why no more are
// allowed.
func New(enter func() error, exit func(), clock *Clock) *Watch {
	return &Watch{
		enter: enter, exit: exit, clock: clock, wanted: make(map[string]Lock), holds: make(map[Hold]struct{}),
	}
}

// Keep enters a hold as a running call. If no more holds are allowed, it returns why.
func (k *Watch) Keep(h Hold) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	// Under mu: Close, which asks for all holds after it has closed, then gets this one or prevents it.
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

// look is called by the ticker.
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

// Close ends all contexts. The holds stay until their locks are released.
func (k *Watch) Close() {
	for _, h := range k.all() {
		h.Closed()
	}
}
