package link

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// Making a connection is not answering a request: with TLS, a password and a far node it takes longer than the node
// timeout, so that the first lock of a process would fail on healthy nodes. So before an attempt makes anything, it
// waits for connections that are being made, if there is no quorum without them.
//
// It waits before, and not by a longer round: a lock's validity counts from its start, and
// a round that has begun must end in time. And only for nodes of which nothing bad is
// known: those that are down, or hang, would cost every call the whole time.

// A Readiness is what the connections of several nodes tell the calls that wait for them.
// The zero value is that of nodes that are not connected.
type Readiness struct {
	up       atomic.Int32 // nodes that are connected
	renewing atomic.Bool  // a node's connection is being made anew; see renew.go of package node

	mu      sync.Mutex    // after a link's
	changed chan struct{} // closed at the next change; nil while nobody waits
}

// Up is how many nodes are connected.
func (r *Readiness) Up() int { return int(r.up.Load()) }

// add notes that a node is connected, 1, is so no more, -1, or will not be, 0.
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

// Wait waits, at most for limit, until need of the nodes are connected, as long as those that
// are being connected to may complete that number; look counts both. It returns an error only if ctx
// ended first, or closing, which is [node.ErrClosed]. Where enough are connected it costs one atomic load.
func (r *Readiness) Wait(ctx context.Context, need int, limit time.Duration, closing <-chan struct{}, look func() (up, connecting int)) error {
	if int(r.up.Load()) >= need {
		return nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		changed := r.next() // Before the look, or a change in between would be missed.
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
