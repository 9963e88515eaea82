// Package clockwatch has locks look at their end again when the clocks have moved against each
// other: after a suspend of the machine, or when the wall clock was set. It knows both clocks, and
// which holds there are. What a hold does then, and when its lock ends, it does not know.
package clockwatch

import (
	"sync"
	"time"
)

const (
	// tick is how often the clocks are compared while locks are kept.
	tick = 50 * time.Millisecond

	// jump is how far the wall clock may stray from the monotonic one before all
	// kept locks are looked at. Slewing is at most a few permille.
	jump = time.Millisecond
)

// A Watch knows the holds of a Redlock. The timers of the holds run on the
// monotonic clock, which may stand still while the machine sleeps and knows
// nothing of a wall clock that is set; so the watch compares the two, for all
// holds together, and has them look again when one has moved against the other.
type Watch struct {
	enter func() error // counts a hold as a running call
	exit  func()
	wall  func() time.Duration // what is added to the wall clock
	born  time.Time

	mu     sync.Mutex // after a Lock's; enter is called with it, holds never
	holds  map[Hold]struct{}
	ticker *time.Timer
	skew   time.Duration // the wall clock less the monotonic one, at the last look
}

// A Hold is a lock whose end is watched.
type Hold interface {
	Jumped()         // the clocks have moved against each other
	End(cause error) // the contexts are to end
}

// New returns a watch without holds. enter counts a hold as a running call until exit, or says
// why there may be none any more; wall is what is added to the wall clock.
func New(enter func() error, exit func(), wall func() time.Duration) *Watch {
	return &Watch{enter: enter, exit: exit, wall: wall, born: time.Now()}
}

// Born is when the watch was made.
func (k *Watch) Born() time.Time { return k.born }

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
		k.skew = k.skewNow()
		if k.ticker == nil {
			k.ticker = time.AfterFunc(tick, k.compare)
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

func (k *Watch) skewNow() time.Duration {
	now := time.Now()
	return now.Round(0).Sub(k.born.Round(0)) + k.wall() - now.Sub(k.born)
}

// compare is the ticker.
func (k *Watch) compare() {
	k.mu.Lock()
	if len(k.holds) == 0 {
		k.mu.Unlock()
		return
	}
	k.ticker.Reset(tick)
	skew := k.skewNow()
	moved := skew - k.skew
	if moved > jump || moved < -jump {
		k.skew = skew
	}
	k.mu.Unlock()
	if moved > jump || moved < -jump {
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
