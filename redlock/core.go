package redlock

import (
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/admission"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/waiting"
)

// A core is what all calls of a Redlock share. Rounds, attempts, locks and those that wait
// know it, and not the Redlock.
type core struct {
	nodes    []*node.Node
	need     int
	defaults options // not changed after New
	events   *dispatcher
	counters counters
	held     heldLocks
	keeper   keeper
	queue    *waiting.Queue
	ready    readiness
	ears     node.Subscriptions
	guard    *quarantine.Guard // nil: there is none

	admission *admission.Gate
	overloads overloads

	channel any // on which this process hears of releases; boxed, as all that scripts get

	// wallOffset is added to the wall clock: 0 but in tests of a suspend.
	wallOffset atomic.Int64

	calls *calls
}

func (r *core) wall() time.Duration { return time.Duration(r.wallOffset.Load()) }
