package redlock

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

// A keeper knows the holds of a Redlock. The timers of the holds run on the
// monotonic clock, which may stand still while the machine sleeps and knows
// nothing of a wall clock that is set; so the keeper compares the two, for all
// holds together, and has them look again when one has moved against the other.
type keeper struct {
	calls *calls
	wall  func() time.Duration // what is added to the wall clock
	born  time.Time

	mu     sync.Mutex // after a Lock's
	holds  map[watched]struct{}
	ticker *time.Timer
	skew   time.Duration // the wall clock less the monotonic one, at the last look
}

// A watched is a lock whose end is watched.
type watched interface {
	jumped()         // the clocks have moved against each other
	end(cause error) // the contexts are to end
}

func (k *keeper) init(calls *calls, wall func() time.Duration) {
	k.calls, k.wall, k.born = calls, wall, time.Now()
}

// add enters a hold as a running call; after Close it returns ErrClosed.
func (k *keeper) add(h watched) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	// Under mu, so that Close, which asks for all holds after it has closed, gets
	// this one or lets it not be added.
	if err := k.calls.enter(); err != nil {
		return err
	}
	if k.holds == nil {
		k.holds = make(map[watched]struct{})
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

func (k *keeper) remove(h watched) {
	k.mu.Lock()
	delete(k.holds, h)
	if len(k.holds) == 0 {
		k.ticker.Stop()
	}
	k.mu.Unlock()
	k.calls.exit()
}

func (k *keeper) all() []watched {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]watched, 0, len(k.holds))
	for h := range k.holds {
		all = append(all, h)
	}
	return all
}

func (k *keeper) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.holds)
}

func (k *keeper) skewNow() time.Duration {
	now := time.Now()
	return now.Round(0).Sub(k.born.Round(0)) + k.wall() - now.Sub(k.born)
}

// compare is the ticker.
func (k *keeper) compare() {
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
			h.jumped()
		}
	}
}

// close ends all contexts. The holds stay until their locks are released.
func (k *keeper) close() {
	for _, h := range k.all() {
		h.end(ErrClosed)
	}
}
