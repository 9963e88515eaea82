package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/dispatch"
	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// This file makes counts and events of what becomes of nodes, rounds and holds. The rules and the links say what that is.

// nodeFacts makes events of the facts about one node.
type nodeFacts struct {
	r        *core
	name     string
	wasUp    atomic.Bool
	vanished dispatch.Limiter // of the events about keys that have
}

// vanishedEvery is the least time between two events about keys that a node has lost: a flush is many.
const vanishedEvery = time.Second

// tell is the link's Config.Tell: it is called with its mutex held, or that of the subscriptions.
func (n *nodeFacts) tell(f node.Fact) {
	e := Event{Node: n.name, Err: f.Why}
	switch f.What {
	case node.Well:
		n.wasUp.Store(true)
		n.r.notes.begin()
		e.Kind = EventNodeUp
	case node.Lost:
		e.Kind, e.Err = EventNodeDown, fmt.Errorf("%w (%d of %d nodes left, a quorum is %d)", f.Why, n.r.ready.Up(), len(n.r.nodes), n.r.need)
		if d := &n.r.defaults; d.hook == nil && !d.silent && !n.wasUp.Load() { // A first attempt has failed. The second gets its time.
			time.AfterFunc(2*max(node.ConnectLimit(d.nodeTimeout), d.connectTimeout), func() { n.warnIfNeverUp(f.Why) })
		}
	case node.Settled:
		e.Kind, e.Unknown, e.Cleaned = EventNodeCleaned, f.Unknown, f.Released
	case node.Unresponsive:
		e.Kind = EventNodeUnresponsive
	case node.Vanished:
		if _, pass := n.vanished.Pass(f.At, vanishedEvery); !pass {
			return
		}
		e.Kind = EventKeysVanished
		e.Err = fmt.Errorf("keys that the node had said it holds are gone before their time (%s so far)", brief.Count(int(f.Times), "lock"))
	case node.Deaf:
		e.Kind = EventPolling
	case node.Wanted, node.Joined, node.Left, node.Stalled:
		return // The link's own.
	}
	n.r.send(context.Background(), e)
}

// warnIfNeverUp logs what nobody may notice otherwise, as the other nodes make a quorum.
func (n *nodeFacts) warnIfNeverUp(why error) {
	if n.wasUp.Load() || n.r.calls.Ended(context.Background()) != nil {
		return
	}
	up := n.r.ready.Up()
	left := "with one more failure nothing can be locked"
	switch spare := up - n.r.need; {
	case spare < 0:
		left = "nothing can be locked"
	case spare > 0:
		left = fmt.Sprintf("%d more may fail before nothing can be locked", spare)
	}
	slog.Warn("redlock: a node could not be connected to since the start: "+left, //nolint:sloglint // A default is what is wanted.
		"node", n.name, "error", why, "connected", up, "nodes", len(n.r.nodes), "quorum", n.r.need)
}

// tellLocked counts, and tells, what has become of a round. rd.mu is held.
func (rd *round) tellLocked(e lease.Effect) {
	if e.Has(lease.Raised) {
		rd.r.counters.Raised.Add(1)
	}
	if e.Has(lease.Split) {
		rd.r.counters.Splits.Add(1)
	}
	if e.Has(lease.Decided) {
		rd.eventLocked(EventDecided)
	}
	if e.Has(lease.Settled) {
		rd.eventLocked(EventSettled)
	}
}

// eventLocked tells how the latest question was decided. rd.mu is held.
func (rd *round) eventLocked(kind EventKind) {
	err := verdictError(rd.rules.Latest)
	if rd.rules.Latest == lease.Undecided {
		err = rd.failLocked().ended
	}
	if !rd.r.wants(rd.ctx, kind, err) {
		return
	}
	e := Event{
		Kind: kind, Op: rd.op(), Resources: slices.Clone(rd.claim.resources), Attempt: int(rd.attempt),
		Votes: rd.votesLocked(rd.rules.Ballots), Took: time.Since(rd.rules.Start), Err: err, Owner: tokens.LabelOf(rd.claim.token()),
	}
	e.Overtaken = rd.extension != nil && rd.extension.overtaken()
	if err == nil {
		e.Until = rd.rules.Until().Mono
		if rd.extension != nil {
			e.Until = rd.extension.validUntil.Later(rd.rules.Until()).Mono // An extension never shortens.
		}
	}
	rd.r.send(rd.ctx, e)
}

// tellRisk tells that an extension by the hold has failed with err, and the end is near. lock.mu is held.
func (h *hold) tellRisk(ctx context.Context, err error, now time.Time) {
	e := h.lock.event(EventHoldAtRisk, OpExtend)
	e.Err, e.Held = err, h.lock.rules.HeldFor(now)
	h.lock.r.send(ctx, e)
}

// tell counts the end of the hold, and sends its event. lock.mu is held.
func (h *hold) tell(why lease.Verdict, now time.Time) {
	h.emitted = true
	cause := verdictError(why)
	if why == lease.NoQuorum {
		cause = nil // The release was not confirmed, which is no loss.
	}
	h.lock.r.counters.HoldsEnded.count(cause)
	if h.lock.r.wants(h.values, EventHoldEnded, cause) {
		e := h.lock.event(EventHoldEnded, OpExtend)
		e.Err = cause
		if h.lock.rules.Ended == lease.Undecided {
			e.Held = h.lock.rules.HeldFor(now) // After a limit and ErrClosed the lock goes on.
		}
		h.lock.r.send(h.values, e)
	}
}
