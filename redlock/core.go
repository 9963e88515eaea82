package redlock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/admission"
	"github.com/seed6c881748/redlock/internal/clockwatch"
	"github.com/seed6c881748/redlock/internal/dispatch"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/waiting"
)

// A core is what all calls of a Redlock share. Rounds, attempts, locks and those that wait
// know it, and not the Redlock.
type core struct {
	nodes      []*node.Node
	need       int
	defaults   options // not changed after New
	events     *dispatch.Dispatcher[Event]
	counters   counters
	held       heldLocks
	watch      *clockwatch.Watch
	queue      *waiting.Queue
	ready      readiness
	ears       node.Subscriptions
	quarantine *quarantine.Dialect // nil: there is none

	admission *admission.Gate
	overloads overloads

	channel any // on which this process hears of releases; boxed, as all that scripts get

	// wallOffset is added to the wall clock: 0 but in tests of a suspend.
	wallOffset atomic.Int64

	calls *calls
}

func (r *core) wall() time.Duration { return time.Duration(r.wallOffset.Load()) }

// calls counts the calls and the holds of a Redlock, so that Close can wait for them.
type calls struct {
	closing chan struct{} // closed by Close: waits and attempts end
	quiet   chan struct{} // closed when none is running after Close

	mu      sync.Mutex // after the clock watch's; calls nothing
	closed  bool
	running int
}

func newCalls() *calls { return &calls{closing: make(chan struct{}), quiet: make(chan struct{})} }

// enter counts a call until exit; after close it returns ErrClosed.
func (c *calls) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.running++
	return nil
}

func (c *calls) exit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if c.closed && c.running == 0 {
		close(c.quiet)
	}
}

// close lets no further call in; false if that had been done before.
func (c *calls) close() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.closed = true
	close(c.closing)
	if c.running == 0 {
		close(c.quiet)
	}
	return true
}

// A nodeObserver makes events of what becomes of a node's connection, and counts for those
// that wait for a quorum of connections.
type nodeObserver struct {
	r    *core
	name string
}

func (o *nodeObserver) Up() {
	o.r.ready.up.Add(1)
	o.r.ready.tell()
	o.send(Event{Kind: EventNodeUp})
}

func (o *nodeObserver) Ended() {
	o.r.ready.up.Add(-1)
	o.r.ready.tell()
}

func (o *nodeObserver) Changed() { o.r.ready.tell() }

func (o *nodeObserver) Lost(why error) { o.send(Event{Kind: EventNodeDown, Err: why}) }

func (o *nodeObserver) Settled(unknown, released int) {
	o.send(Event{Kind: EventNodeCleaned, Unknown: unknown, Cleaned: released})
}

func (o *nodeObserver) Deaf(why error) { o.send(Event{Kind: EventPolling, Err: why}) }

func (o *nodeObserver) send(e Event) {
	e.Node = o.name
	o.r.events.Send(context.Background(), e)
}

type counters struct {
	holds holdCounters

	waiting, acquired, extended, repaired, unlocked, taken, noQuorum, lost, splits, raised, woken, overloaded atomic.Int64
}

// holdCounters count why holds have ended.
type holdCounters struct{ released, expired, lost, maxHold, closed atomic.Int64 }

func (c *holdCounters) count(cause error) {
	switch {
	case errors.Is(cause, ErrExpired):
		c.expired.Add(1)
	case errors.Is(cause, ErrLost):
		c.lost.Add(1)
	case errors.Is(cause, ErrMaxHold):
		c.maxHold.Add(1)
	case errors.Is(cause, ErrClosed):
		c.closed.Add(1)
	default:
		c.released.Add(1)
	}
}

// failed counts a failed round by its reason.
func (c *counters) failed(reason error) {
	switch {
	case errors.Is(reason, ErrTaken):
		c.taken.Add(1)
	case errors.Is(reason, ErrNoQuorum):
		c.noQuorum.Add(1)
	case errors.Is(reason, ErrLost):
		c.lost.Add(1)
	}
}

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
