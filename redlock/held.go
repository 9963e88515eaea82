package redlock

import (
	"sync"
	"time"
)

// A leased is a lock, as far as it matters here.
type leased interface{ Until() time.Time }

// heldLocks knows the locks that were acquired and not ended. A handle that is
// dropped without Unlock stays in it until its lock has expired and the set has
// grown: sweeping then costs each lock a constant.
type heldLocks struct {
	mu    sync.Mutex // before a Lock's: a sweep reads Until
	locks map[leased]struct{}
	sweep int // size at which expired ones are swept out
}

const minSweep = 64

func (h *heldLocks) add(l leased) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.locks == nil {
		h.locks = make(map[leased]struct{})
		h.sweep = minSweep
	}
	if len(h.locks) >= h.sweep {
		h.sweepLocked()
		h.sweep = max(minSweep, 2*len(h.locks))
	}
	h.locks[l] = struct{}{}
}

func (h *heldLocks) remove(l leased) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.locks, l)
}

func (h *heldLocks) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sweepLocked()
	return len(h.locks)
}

func (h *heldLocks) sweepLocked() {
	now := time.Now()
	for l := range h.locks {
		if !now.Before(l.Until()) {
			delete(h.locks, l)
		}
	}
}
