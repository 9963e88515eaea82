package redlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Making a connection is not answering a request: with TLS, a password and a far node it
// takes longer than the node timeout, so that the first lock of a process would fail on
// healthy nodes. So before an attempt makes anything, it waits for connections that are
// being made, if there is no quorum without them.
//
// It waits here, and not by a longer round: a lock's validity counts from its start, and
// a round that has begun must end in time. And only for nodes of which nothing bad is
// known: those that are down, or hang, would cost every call the whole time.

// readiness is what the nodes' connections tell the calls that wait for them.
type readiness struct {
	up atomic.Int32 // nodes that are connected

	mu      sync.Mutex    // after a node's
	changed chan struct{} // closed at the next change; nil while nobody waits
}

// tell wakes those who wait.
func (r *readiness) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// next returns a channel that is closed at the next change.
func (r *readiness) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

// connected waits, at most for the connect timeout, for a quorum of connections, as long
// as those that are being made may complete one. It returns an error only if ctx or the
// Redlock ended first. Where a quorum is connected it costs one atomic load.
func (r *core) connected(ctx context.Context) error {
	if int(r.ready.up.Load()) >= r.need {
		return nil
	}
	limit := time.NewTimer(r.defaults.connectTimeout)
	defer limit.Stop()
	for {
		changed := r.ready.next() // Before the look, or a change in between would be missed.
		ups, comings := 0, 0
		for _, n := range r.nodes {
			switch up, coming := n.Coming(); {
			case up:
				ups++
			case coming:
				comings++
			}
		}
		if ups >= r.need || ups+comings < r.need {
			return nil
		}
		select {
		case <-changed:
		case <-limit.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-r.calls.closing:
			return ErrClosed
		}
	}
}
