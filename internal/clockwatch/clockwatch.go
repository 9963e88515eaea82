// Package clockwatch says when a deadline has passed, though the machine may have slept, and has
// locks look at their end again then. It knows the clocks, and which holds there are. What a hold
// does then, and when its lock ends, it does not know.
package clockwatch

import (
	"sync"
	"time"
)

// tick is how often the clock is looked at while locks are kept.
const tick = 50 * time.Millisecond

// A Watch knows the holds of a Redlock. The timers of the holds run on the
// monotonic clock, which may stand still while the machine sleeps; so the watch
// looks at the clock's lead, for all holds together, and has them look at their
// end again when it has grown.
type Watch struct {
	enter func() error // counts a hold as a running call
	exit  func()
	clock *Clock

	mu     sync.Mutex // after a Lock's; enter is called with it, holds never
	holds  map[Hold]struct{}
	ticker *time.Timer
	lead   time.Duration // the clock's, at the last look
}

// A Hold is a lock whose end is watched.
type Hold interface {
	Jumped()         // the clock's lead has grown
	End(cause error) // the contexts are to end
}

// New returns a watch without holds. enter counts a hold as a running call until exit, or says
// why there may be none any more.
func New(enter func() error, exit func(), clock *Clock) *Watch {
	return &Watch{enter: enter, exit: exit, clock: clock}
}

// Add enters a hold as a running call; if there may be none any more, it returns why.
func (k *Watch) Add(h Hold) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	// Under mu, so that Close, which asks for all holds after it has closed, gets
	// this one or lets it not be added.
	if err := k.enter(); err != nil {
		return err
	}
	if k.holds == nil {
		k.holds = make(map[Hold]struct{})
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

// Remove forgets a hold, which was added.
func (k *Watch) Remove(h Hold) {
	k.mu.Lock()
	delete(k.holds, h)
	if len(k.holds) == 0 {
		k.ticker.Stop()
	}
	k.mu.Unlock()
	k.exit()
}

func (k *Watch) all() []Hold {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]Hold, 0, len(k.holds))
	for h := range k.holds {
		all = append(all, h)
	}
	return all
}

// Count returns how many holds there are.
func (k *Watch) Count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.holds)
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
