// Package leases knows which leases are held.
package leases

import (
	"maps"
	"slices"
	"sync"
)

// A Lease says why it has ended, nil while it is held.
type Lease interface{ Err() error }

// A Set is the leases that were added, and neither removed nor have ended. One that is never
// removed stays in it until it has ended and the set has grown: sweeping then costs each lease
// a constant. The zero value is empty. It is safe for concurrent use.
type Set struct {
	mu     sync.Mutex // Err is called with it
	leases map[Lease]struct{}
	sweep  int // size at which those that have ended are swept out
}

// MinSweep is the least size of a set at which it is swept.
const MinSweep = 64

// Add adds a lease.
func (s *Set) Add(l Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases == nil {
		s.leases = make(map[Lease]struct{})
		s.sweep = MinSweep
	}
	if len(s.leases) >= s.sweep {
		s.sweepLocked()
		s.sweep = max(MinSweep, 2*len(s.leases))
	}
	s.leases[l] = struct{}{}
}

// Remove removes a lease, if it is there.
func (s *Set) Remove(l Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, l)
}

// Held returns how many leases are held now.
func (s *Set) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked()
	return len(s.leases)
}

// All returns the leases that are held now, in no order.
func (s *Set) All() []Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked()
	return slices.Collect(maps.Keys(s.leases))
}

// Size returns how many leases the set knows, those that have ended included.
func (s *Set) Size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.leases)
}

func (s *Set) sweepLocked() {
	for l := range s.leases {
		if l.Err() != nil {
			delete(s.leases, l)
		}
	}
}
