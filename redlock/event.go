package redlock

import (
	"context"
	"slices"
	"time"
)

// An EventKind says what happened.
type EventKind string

// The kinds of events, with the fields that each one sets besides Kind, Time and Call. Owner
// is set wherever Resources are.
const (
	// EventDecided means that a round was decided, and its call went on. It sets Op, Resources, Attempt, Votes (a
	// node not yet heard has ErrPending), Took, and Err or, for a lock and an extension that succeeded, Until. That
	// is the result of the votes at that moment: an extension still fails if an Unlock overtakes it (Overtaken), or
	// if its caller is suspended until after Until. If some nodes are asked again, because votes are split or for a
	// fence, the round is decided once more.
	EventDecided EventKind = "decided"

	// EventSettled means that the last node of a round has answered or timed out, which may
	// be long after the decision. It sets the same fields, with the final votes.
	EventSettled EventKind = "settled"

	// EventNodeUp means that a connection to Node is ready, for the first time or after
	// EventNodeDown, or that Node votes in time again after EventNodeUnresponsive.
	EventNodeUp EventKind = "node up"

	// EventNodeDown means that the connection to Node broke or could not be made, because of Err, which also says how
	// many nodes are connected still. It is sent once for each loss: further attempts that fail are no events.
	EventNodeDown EventKind = "node down"

	// EventNodeUnresponsive means that Node is connected, but counts as unavailable, because of Err: none of its last
	// votes came in time; see [NodeStats]. It is sent once, until EventNodeUp or EventNodeDown.
	EventNodeUnresponsive EventKind = "node unresponsive"

	// EventKeysVanished means that Node no longer has the keys of a lock that it had said it holds,
	// though they could not have expired and this client had not released them; see NodeStats.Vanished.
	// Err says how many locks that were so far. It is sent at most once a second for each node.
	EventKeysVanished EventKind = "keys vanished"

	// EventNodeCleaned means that a new connection to Node has settled what the broken one had
	// left open: Cleaned releases were carried out. Unknown is how many requests of unknown
	// outcome may still arrive; the releases of their locks are repeated for a while.
	EventNodeCleaned EventKind = "node cleaned"

	// EventAcquired means that TryLock, Lock or Do has got a lock. It sets Op, Resources, Attempt, Took (how long the
	// call has taken), Waited (of that, the time until the successful attempt began), Until, Fence and Holder.
	EventAcquired EventKind = "acquired"

	// EventNotAcquired means that TryLock, Lock or Do has returned without a lock. It sets
	// Op, Resources, Attempt (how many attempts the call has made), Took, Votes (of the last
	// attempt) and Err (what the call returned). It is not sent for calls that were refused
	// before anything was sent: wrong arguments, a context that had ended, after Close.
	EventNotAcquired EventKind = "not acquired"

	// EventExtended means that an extension by Extend, KeepAlive or Do has ended. It sets
	// Op, Resources, Took, Until (as it is now), Holder, and Err if it failed.
	EventExtended EventKind = "extended"

	// EventReleased means that an Unlock has ended, including that of a Do. It sets Op, Resources, Took, Held (for
	// how long the lock was held), Kept, Holder, and Err (what Unlock returned): it matches ErrLost if the lock was
	// not held to the end, and ErrNoQuorum if the release was not confirmed. It is sent again whenever a repeated
	// Unlock has asked the nodes again.
	EventReleased EventKind = "released"

	// EventHoldEnded means that KeepAlive and Do no longer keep a lock, and that their contexts
	// have ended. It is sent when that happens, not when somebody notices; for a release, when
	// the nodes have answered. It sets Op (OpExtend), Resources, Held (for how long the lock has
	// been held), Until, Holder, and Err, the cause: ErrExpired or ErrLost for a loss, even if
	// only the release has shown it; ErrStopTime, ErrMaxHold, ErrClosed; nil for a release.
	EventHoldEnded EventKind = "hold ended"

	// EventDone means that a Do that had a lock has returned. It sets Op, Resources,
	// Took (of the whole call), Held, Kept, Holder, and Err (what Do returned).
	EventDone EventKind = "done"

	// EventHoldAtRisk means that an extension by KeepAlive or Do has failed because of Err,
	// and that less than half of the validity, less WithStopTime's time, is left. It sets Op, Resources, Until and
	// Holder, too. It is sent once, until an extension has succeeded again.
	EventHoldAtRisk EventKind = "hold at risk"

	// EventWaiting means that a Lock call waits: it was refused, or stands behind others of this process that want
	// one of its resources. It sets Op, Resources, Attempt (how many attempts it has made so far), Took (how long the
	// call has waited), Position (its place in the line of this process: 1 talks to the nodes; 1000 stands for all
	// further back) and Err (what its last attempt saw). It is sent when the call begins to wait, and after each
	// attempt that has failed since. A call with [WithPolling] stands in no line, and sends none.
	EventWaiting EventKind = "waiting"

	// EventOverloaded means that attempts to lock were turned away, as more was asked for than the nodes can answer
	// in time. TurnedAway is how many were since the last such event; Op, Resources, Attempt, Votes and Err are those
	// of the last one. It is sent at most once a second. Those attempts have neither EventDecided nor EventSettled.
	EventOverloaded EventKind = "overloaded"

	// EventPolling means that Node sends no wake-ups, because of Err: the pool has no second
	// connection to give, or the server's ACL forbids SUBSCRIBE or PUBLISH. Waiting Lock calls
	// therefore poll it. It is sent once, until that works again, and not while the node is down.
	EventPolling EventKind = "polling"

	// EventSetsDiffer means that a client that shares Node, and the prefix, was given other nodes, or that two
	// addresses of this client lead to one server (Node is empty then). It sets Set, and Err to its text. It is
	// sent once a note says it that was written after it was first seen, which takes up to a minute.
	EventSetsDiffer EventKind = "sets differ"

	// EventSetsAgree means that such a difference was not seen for a minute. It sets Node and Set.
	EventSetsAgree EventKind = "sets agree"
)

// An Event is something that happened in a Redlock. Which fields are set depends on Kind.
// More fields and kinds may be added. The slices belong to the hook.
type Event struct {
	Kind EventKind
	Time time.Time // when it happened

	// Call is the same in all events of one call of TryLock, Lock, Do, Extend, KeepAlive or Unlock on this Redlock,
	// and only in those; 0 in events of nodes. Attempts, extensions and the release within a Do, or because of a
	// KeepAlive, belong to that call. What the function of Do calls itself does not.
	Call uint64

	Op        Op
	Resources []string      // sorted
	Attempt   int           // of a TryLock, Lock or Do, from 1; 0 for other operations
	Votes     []Vote        // of all nodes, in the order given to New
	Took      time.Duration // how long the round or the call took
	Until     time.Time     // when the lock ends unless it is extended
	Err       error         // why something failed or ended; nil for success

	// Holder is the digest of the lock's token, which is the same in all events of one
	// lock. Votes of those that the lock keeps out show it as Vote.Holder.
	Holder string
	Fence  int64         // 0 without WithFencing
	Waited time.Duration // see EventAcquired
	Held   time.Duration // counted from the start of the attempt that got the lock
	Passed bool          // of EventAcquired and EventReleased: from or to another caller of this process, see [WithTurn]
	Kept   bool          // of EventExtended, EventReleased and EventDone: KeepAlive or Do held it; see EventHoldEnded

	// Owner is the label, by [WithOwner], of the lock that the event is about or that was asked for: this client's
	// own. The label of whoever holds a lock that was refused is in Votes.
	Owner string

	Position   int // see EventWaiting
	TurnedAway int // see EventOverloaded; attempts

	// Overtaken is whether the release of the lock has begun while the round was an extension of it. Keys that
	// it does not find are then no loss.
	Overtaken bool

	Node    string // the node's name, in events of nodes
	Unknown int    // see EventNodeCleaned
	Cleaned int    // see EventNodeCleaned

	Set *SetDifference // see EventSetsDiffer; not to be changed
}

// A Hook receives events. It is called on a goroutine of its own, with one event at a time, in
// the order in which things happened. It may block, and need not be safe for concurrent use. It
// may use the Redlock, but must not wait for Close, which waits for it.
//
// A slow hook delays only later events. When 4096 events wait, besides those that are being delivered, further ones
// are dropped and counted in [Stats]. Close delivers what is waiting, as long as its own context allows.
//
// ctx carries the values of the context of the call that the event belongs to, but is never
// cancelled; for events of nodes it is empty.
type Hook func(ctx context.Context, e Event)

// A Tracer follows calls from their beginning to their end, as tracing needs it: it gives each call
// a context of its own, and says which events it wants. Events that nobody wants are not made, so a
// tracer that ignores most calls costs them little. Its methods are safe for concurrent use.
//
// If Begin or End panics, the call still finishes its work on the lock, so that nothing hangs
// and no key is left behind: a lock that the caller does not get is released. Where a goroutine has no
// caller, a panic ends the process: in an extension by KeepAlive or Do, and when a Semaphore locks a slot.
type Tracer interface {
	// Begin is called when TryLock, Lock, Do, Extend or Unlock begins, on the caller's goroutine, once its arguments
	// have been checked; with OpLock, OpDo, OpExtend or OpUnlock. A Do begins once with OpDo and, within that, with
	// OpLock (but for a Lock's own Do), with OpExtend for each extension and with OpUnlock; a KeepAlive has its
	// extensions only. Begin returns ctx or a context derived from it: the call goes on with that, its events carry
	// its values, and so does the context of Do's function. It must not change resources, nor use the Redlock.
	Begin(ctx context.Context, op Op, resources []string) context.Context

	// End is called when an operation ends for which Begin was called, on the same goroutine. The call
	// waits for it, so it must be quick. It gets the event of that end, without Time, Call, Holder, Until
	// and Fence, even if Wants refuses that event. It must not change the event's slices. Metrics are
	// best made in End, as it needs no delivery of events. A Do that gets no lock has only the End of its
	// OpLock. The events of a call may come after its End.
	End(ctx context.Context, e Event)

	// Wants reports whether Event is to be called with an event of this kind and with this context. It
	// is called with locks held, and more than once for an event: it must be quick, and must not use the
	// Redlock. If it panics, the event is not wanted.
	Wants(ctx context.Context, kind EventKind) bool

	// Event is called as a [Hook] is, on the same goroutine, before the hook. It must not change the event's slices.
	Event(ctx context.Context, e Event)
}

// clone returns the event with slices and an error of its own.
func (e *Event) clone() Event {
	c := *e
	c.Resources, c.Votes = slices.Clone(e.Resources), slices.Clone(e.Votes)
	if qe, ok := e.Err.(*QuorumError); ok { //nolint:errorlint // One that is wrapped stays as it is: the wrapping is not the caller's.
		c.Err = qe.clone()
	}
	return c
}
