package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/admission"
	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/calls"
	"github.com/seed6c881748/redlock/internal/clockwatch"
	"github.com/seed6c881748/redlock/internal/dispatch"
	"github.com/seed6c881748/redlock/internal/link"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/waiting"
)

// A core is what all calls of a Redlock share. Rounds, attempts, locks and those that wait
// know it, and not the Redlock.
type core struct {
	nodes         []*link.Link
	need          int
	defaults      options // not changed after New
	events        *dispatch.Dispatcher[Event]
	recentNodes   dispatch.Recent[Event] // apart, as a node's loss is followed by many events of calls
	recentCalls   dispatch.Recent[Event]
	waits         waiting.Calls
	counters      counters
	clock         *clockwatch.Clock
	watch         *clockwatch.Watch
	queue         *waiting.Queue
	ready         link.Readiness
	subscriptions link.Subscriptions
	quarantine    *quarantine.Dialect // nil: there is none
	notes         *notes

	admission *admission.Gate
	overloads dispatch.Limiter // of the events about them

	channel any // on which this process hears of releases; boxed, as all that scripts get

	// In ns of the wall clock, see wake and stoodStill.
	attempted, noticed atomic.Int64

	// wallOffset is added to the wall clock: 0 but in tests of a suspend.
	wallOffset atomic.Int64

	calls *calls.Group

	lastLease atomic.Pointer[lease]
}

func (co *core) wall() time.Duration { return time.Duration(co.wallOffset.Load()) }

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
	return co.ready.Wait(ctx, co.need, co.defaults.connectTimeout, co.calls.Closing, func() (up, connecting int) {
		return link.Reachable(co.nodes)
	})
}

// wake has connections be made anew that may have died while this process stood still: then it has asked for nothing, either.
func (co *core) wake(now time.Time) {
	const grain = int64(10 * time.Millisecond) // Not each attempt is to write what all read.
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

// stoodStill counts a standstill that was noticed now by a timer that was due then, once for all such timers.
func (co *core) stoodStill(due, now time.Time) {
	wall := now.UnixNano()
	if last := co.noticed.Swap(wall); due.UnixNano() > last {
		co.counters.standstills.Add(1)
	}
}

// A nodeObserver makes events of what becomes of a node's connection.
type nodeObserver struct {
	r        *core
	name     string
	wasUp    atomic.Bool
	vanished dispatch.Limiter // of the events about keys that have
}

func (o *nodeObserver) Up() {
	o.wasUp.Store(true)
	o.r.notes.begin()
	o.send(Event{Kind: EventNodeUp})
}

func (o *nodeObserver) Lost(why error) {
	o.send(Event{Kind: EventNodeDown, Err: fmt.Errorf("%w (%d of %d nodes left, a quorum is %d)", why, o.r.ready.Up(), len(o.r.nodes), o.r.need)})
	if d := &o.r.defaults; d.hook == nil && !d.silent && !o.wasUp.Load() { // A first attempt has failed. The second gets its time.
		time.AfterFunc(2*max(node.ConnectLimit(d.nodeTimeout), d.connectTimeout), func() { o.warnIfNeverUp(why) })
	}
}

// warnIfNeverUp logs what nobody may notice otherwise, as the other nodes make a quorum.
func (o *nodeObserver) warnIfNeverUp(why error) {
	if o.wasUp.Load() || o.r.calls.Ended(context.Background()) != nil {
		return
	}
	up := o.r.ready.Up()
	left := "with one more failure nothing can be locked"
	switch spare := up - o.r.need; {
	case spare < 0:
		left = "nothing can be locked"
	case spare > 0:
		left = fmt.Sprintf("%d more may fail before nothing can be locked", spare)
	}
	slog.Warn("redlock: a node could not be connected to since the start: "+left, //nolint:sloglint // A default is what is wanted.
		"node", o.name, "error", why, "connected", up, "nodes", len(o.r.nodes), "quorum", o.r.need)
}

func (o *nodeObserver) Settled(unknown, released int) {
	o.send(Event{Kind: EventNodeCleaned, Unknown: unknown, Cleaned: released})
}

func (o *nodeObserver) Unresponsive(why error) { o.send(Event{Kind: EventNodeUnresponsive, Err: why}) }

// vanishedEvery is the least time between two events about keys that a node has lost: a flush is many.
const vanishedEvery = time.Second

func (o *nodeObserver) Vanished(now time.Time, times int64) {
	if _, pass := o.vanished.Pass(now, vanishedEvery); pass {
		o.send(Event{Kind: EventKeysVanished, Err: fmt.Errorf("keys that the node had said it holds are gone before their time (%s so far)", brief.Count(int(times), "lock"))})
	}
}

func (o *nodeObserver) Deaf(why error) { o.send(Event{Kind: EventPolling, Err: why}) }

func (o *nodeObserver) send(e Event) {
	e.Node = o.name
	o.r.send(context.Background(), e)
}

type counters struct {
	holds holdCounters

	waiting, acquired, extended, repaired, unlocked, taken, noQuorum, lost, splits, raised, woken, overloaded, standstills atomic.Int64
}

type holdCounters struct{ released, expired, lost, stopTime, maxHold, closed atomic.Int64 }

func (c *holdCounters) count(cause error) {
	switch {
	case errors.Is(cause, ErrExpired):
		c.expired.Add(1)
	case errors.Is(cause, ErrLost):
		c.lost.Add(1)
	case errors.Is(cause, ErrStopTime):
		c.stopTime.Add(1)
	case errors.Is(cause, ErrMaxHold):
		c.maxHold.Add(1)
	case errors.Is(cause, ErrClosed):
		c.closed.Add(1)
	default:
		c.released.Add(1)
	}
}

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
