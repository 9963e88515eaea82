// Package releases remembers releases of locks that other processes took: those that are running,
// as simultaneous ones are one, and those that may be repeated, as a node that has confirmed the
// first one would say to the second that the lock is lost.
package releases

import (
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// A Claim is what a release is about; see [node.Token].
type Claim interface {
	Weight() int            // about how many bytes are kept for it; constant
	Longest() time.Duration // for how long its keys may live
}

// A Release is a call that releases a claim, or several of them that are one.
type Release[C Claim] struct {
	Claim C
	Ready chan struct{} // closed when the release has ended
	Err   error         // its result; set before

	key  string
	ends time.Time // of one that has ended and may be repeated: when no key can be left
}

// A Memory is the releases that are known, in bounded space. The zero value is empty. It is
// safe for concurrent use.
type Memory[C Claim] struct {
	mu    sync.Mutex // newClaim is called with it
	known map[string]*Release[C]
	sweep int       // number at which those that have ended are swept out
	swept time.Time // when they were, last
	size  int       // bytes that are kept for those that may be repeated
}

// MinSweep is the least number of releases at which those that have ended are swept out.
const MinSweep = 64

// Join returns the release of that key, and whether it is the caller's to carry out and to end
// with End. Otherwise it is running. newClaim makes its claim, unless it is repeated.
func (m *Memory[C]) Join(key string, newClaim func() C) (r *Release[C], first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.known[key]
	if old != nil && old.ends.IsZero() {
		return old, false
	}
	r = &Release[C]{key: key, Ready: make(chan struct{})}
	if old != nil {
		r.Claim = old.Claim
		m.size -= old.Claim.Weight()
	} else {
		r.Claim = newClaim()
	}
	if m.known == nil {
		m.known = make(map[string]*Release[C])
	}
	m.known[key] = r
	return r, true
}

// End is called when r has got its result. One that may be repeated is kept for as long as
// a key can be left, if there is room.
func (m *Memory[C]) End(r *Release[C], repeatable bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(r.Ready)
	now := time.Now()
	full := func() bool { return len(m.known) > node.MaxBacklog || m.size+r.Claim.Weight() > node.MaxForeign }
	if len(m.known) >= m.sweep || full() && now.Sub(m.swept) >= time.Second {
		m.forgetLocked(now)
	}
	if !repeatable || full() {
		delete(m.known, r.key)
		return
	}
	m.size += r.Claim.Weight()
	r.ends = now.Add(max(r.Claim.Longest(), node.MinTombstone))
}

// Size returns how many releases are known, and the bytes that are kept for those that may be
// repeated.
func (m *Memory[C]) Size() (number, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.known), m.size
}

// Forget drops those of which no key can be left.
func (m *Memory[C]) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetLocked(time.Now())
}

func (m *Memory[C]) forgetLocked(now time.Time) {
	for key, r := range m.known {
		if !r.ends.IsZero() && now.After(r.ends) {
			delete(m.known, key)
			m.size -= r.Claim.Weight()
		}
	}
	m.swept, m.sweep = now, max(MinSweep, 2*len(m.known))
}
