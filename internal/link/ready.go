package link

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// Making a connection takes longer than a request: with TLS, a password and a far node it takes longer than the node
// timeout, and the first lock of a process would fail on healthy nodes. So if there is no quorum without them, an
// attempt first waits for connections that are being made.
//
// It waits before its round, as a longer round is no alternative: a lock's validity counts from its start, and a round
// must end in time. It waits only for nodes of which no failure is known: those that are down, or hang, would cost
// every call the whole time.

// A Readiness tells waiting calls about the connections of several nodes. The zero value is for nodes that are not
// connected.
type Readiness struct {
	up       atomic.Int32 // nodes that are connected
	renewing atomic.Bool  // a node's connection is being made anew; see renew.go of package node

	mu      sync.Mutex    // taken after a link's
	changed chan struct{} // closed at the next change; nil while nobody waits
}

// Up returns how many nodes are connected.
func (r *Readiness) Up() int { return int(r.up.Load()) }

// add notes that a node is connected (1), is no longer connected (-1), or could not be connected to (0).
func (r *Readiness) add(up int32) {
	r.up.Add(up)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// next returns a channel that is closed at the next change.
func (r *Readiness) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

// Wait waits, at most for limit, until need nodes are connected. It waits only while nodes that are being connected to
// may complete that number; look counts both. It returns an error only if ctx ended first, or closing, which is
// [node.ErrClosed]. With enough connections it costs one atomic load.
func (r *Readiness) Wait(ctx context.Context, need int, limit time.Duration, closing <-chan struct{}, look func() (up, connecting int)) error {
	if int(r.up.Load()) >= need {
		return nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		changed := r.next() // Before look, or a change in between would be missed.
		if up, connecting := look(); up >= need || up+connecting < need {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-closing:
			return node.ErrClosed
		}
	}
}
