package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/calls"
	"github.com/seed6c881748/redlock/internal/clockwatch"
	"github.com/seed6c881748/redlock/internal/dispatch"
	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/link"
	"github.com/seed6c881748/redlock/internal/quarantine"
)

// A core is what all calls of a Redlock share. Rounds, attempts, locks and waiters refer to it, not to the Redlock.
type core struct {
	nodes         []*link.Link
	need          int
	rules         lease.Config
	defaults      options // not changed after New
	events        *dispatch.Dispatcher[Event]
	recentNodes   dispatch.Recent[Event] // separate, as a node's loss is followed by many events of calls
	recentCalls   dispatch.Recent[Event]
	waits         calls.Waiting
	handOvers     atomic.Int64 // releases of which no node has told anybody
	counts        counts
	clock         *clockwatch.Clock
	watch         *clockwatch.Watch
	line          *calls.Line
	ready         link.Readiness
	subscriptions link.Subscriptions
	quarantine    *quarantine.Dialect // nil: there is none
	notes         *notes

	admission *calls.Gate
	overloads dispatch.Limiter // limits the events about overloads

	notAcquired, notExtended dispatch.Limiter // limit these events in recentCalls

	channel any // this process's, for messages about releases; boxed, like all arguments of scripts

	// In ns of the wall clock, see wake and stoodStill.
	attempted, noticed atomic.Int64

	// wallOffset is added to the wall clock. Only tests of a suspend set it.
	wallOffset atomic.Int64

	calls *calls.Group

	lastTerms atomic.Pointer[terms]
	hasTurns  atomic.Bool // a call has taken part in one
}

func (co *core) wall() time.Duration { return time.Duration(co.wallOffset.Load()) }

// takes returns how long node i has recently taken to answer.
func (co *core) takes(i int) time.Duration { return co.nodes[i].Takes() }

// isEnough reports whether a quorum of nodes vote, as far as is known.
func (co *core) isEnough() bool {
	voting := 0
	for _, n := range co.nodes {
		if n.IsVoting() {
			voting++
		}
	}
	return voting >= co.need
}

// connected waits for a quorum of connections; see [link.Readiness].
func (co *core) connected(ctx context.Context) error {
	co.wake(time.Now())
	if len(co.nodes) == 1 {
		co.nodes[0].Look()
	}
	return co.ready.Wait(ctx, co.need, co.defaults.connectTimeout, co.calls.Closing, func() (up, connecting int) {
		return link.Reachable(co.nodes)
	})
}

// wake renews connections that may have died while this process stood still. A standstill shows as a time without
// attempts.
func (co *core) wake(now time.Time) {
	const grain = int64(10 * time.Millisecond) // Not every attempt should write a value that all attempts read.
	wall := now.Add(co.wall()).UnixNano()
	last := co.attempted.Load()
	if 0 <= wall-last && wall-last < grain { // Below 0 the wall clock was set back.
		return
	}
	co.attempted.Store(wall)
	if wall-last > int64(co.defaults.nodeTimeout) {
		for _, n := range co.nodes {
			n.Wake(now)
		}
	}
}

// interrupt makes callers that read for themselves check whether they must still wait.
func (co *core) interrupt() {
	for _, n := range co.nodes {
		n.Interrupt()
	}
}

// stoodStill counts a standstill, noticed now by a timer that was due then. It counts once for all timers that notice
// it.
func (co *core) stoodStill(due, now time.Time) {
	if last := co.noticed.Swap(now.UnixNano()); due.UnixNano() > last {
		co.counts.Standstills.Add(1)
	}
}

// counts are the counters of Stats, under the same names.
type counts struct {
	Waiting, Acquired, Passed, Extended, Repaired, Unlocked, Taken, NoQuorum, Lost, Splits, Raised, Woken, Overloaded, Standstills atomic.Int64

	HoldsEnded holdCounters
}

type holdCounters struct{ Released, Expired, Lost, StopTime, MaxHold, Closed atomic.Int64 }

func (c *holdCounters) count(cause error) {
	switch {
	case errors.Is(cause, ErrExpired):
		c.Expired.Add(1)
	case errors.Is(cause, ErrLost):
		c.Lost.Add(1)
	case errors.Is(cause, ErrStopTime):
		c.StopTime.Add(1)
	case errors.Is(cause, ErrMaxHold):
		c.MaxHold.Add(1)
	case errors.Is(cause, ErrClosed):
		c.Closed.Add(1)
	default:
		c.Released.Add(1)
	}
}

func (c *counts) failed(reason error) {
	switch {
	case errors.Is(reason, ErrTaken):
		c.Taken.Add(1)
	case errors.Is(reason, ErrNoQuorum):
		c.NoQuorum.Add(1)
	case errors.Is(reason, ErrLost):
		c.Lost.Add(1)
	}
}

// terms returns the terms of a ttl, or an error if the ttl is not allowed. Most calls of a program use the same ttl.
func (co *core) terms(ttl time.Duration, o *options) (*terms, error) {
	le := co.lastTerms.Load()
	if le == nil || le.ttl != ttl || le.factor != o.driftFactor {
		le = &terms{ttl, o.driftFactor, lease.Validity(ttl, o.driftFactor), serverMillis(ttl)}
		co.lastTerms.Store(le)
	}
	return le, o.check(le)
}

// outlasting returns terms whose validity lasts for the min hold after any attempt that succeeds: le, or terms with a
// longer ttl. The min hold counts from the end of the attempt, and a release never lengthens the keys' life. So with
// less, the keys of a holder that dies could end before the min hold does.
func (co *core) outlasting(le *terms, o *options) (*terms, error) {
	if o.minHold == 0 {
		return le, nil
	}
	if o.minHold > le.ttl {
		return nil, fmt.Errorf("redlock: min hold %v: must not exceed the ttl %v", o.minHold, le.ttl)
	}
	attempt := min(attemptTimeouts*o.nodeTimeout, le.validity)
	least := lease.TTLFor(o.minHold, attempt, le.factor)
	if least <= le.ttl {
		return le, nil
	}
	longer, err := co.terms(least, o)
	if err != nil {
		return nil, fmt.Errorf("redlock: min hold %v: the ttl of %v is too short for it and an attempt: %w", o.minHold, le.ttl, err)
	}
	return longer, nil
}
