package redlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// An Op is an operation on the nodes.
type Op string

// The operations that errors and events name.
const (
	OpLock    Op = "lock"
	OpExtend  Op = "extend"
	OpUnlock  Op = "unlock"
	OpRelease Op = "release" // of a lock that another process took
	OpDo      Op = "do"      // only in events
	OpInspect Op = "inspect" // only in errors
)

// An EventKind says what happened.
type EventKind string

// The kinds of events, with the fields that each one sets besides Kind and Time.
const (
	// EventDecided: a round was decided, and its call went on. Op, Resources,
	// Attempt, Votes (a node not yet heard has ErrPending), Took, and Err or,
	// for a lock and an extension that succeeded, Until. It is what the votes
	// amounted to then; an extension that is overtaken by an Unlock, or whose
	// caller is suspended until after Until, fails all the same.
	EventDecided EventKind = "decided"

	// EventSettled: a round's last node has answered or timed out, which may be
	// long after the decision. The same fields, with the final votes.
	EventSettled EventKind = "settled"

	// EventNodeUp: a connection to Node is ready, after it was down or for the
	// first time.
	EventNodeUp EventKind = "node up"

	// EventNodeDown: the connection to Node broke or could not be made (Err).
	// Once per loss: attempts to reconnect that fail are not events.
	EventNodeDown EventKind = "node down"

	// EventNodeCleaned: a new connection to Node settled what the broken one had
	// left open: Unknown requests of unknown outcome, which the node refuses if they
	// arrive now, and Cleaned locks whose release had not been confirmed.
	EventNodeCleaned EventKind = "node cleaned"

	// EventAcquired: TryLock, Lock or Do has got a lock. Op, Resources, Attempt, Took
	// (how long the call has taken), Waited (of that, until the attempt began that got
	// it), Until, Fence, Holder.
	EventAcquired EventKind = "acquired"

	// EventNotAcquired: TryLock, Lock or Do has returned without a lock. Op, Resources,
	// Attempt (how many it has made), Took, Votes (of the last one), Err (what the call
	// returned). Calls that were refused before anything was sent are not told of: wrong
	// arguments, a context that had ended, after Close.
	EventNotAcquired EventKind = "not acquired"

	// EventExtended: an extension has ended, of Extend or of KeepAlive or Do. Op,
	// Resources, Took, Until (as it is now), Holder, and Err if it failed.
	EventExtended EventKind = "extended"

	// EventReleased: Unlock has ended, that of Do included. Op, Resources, Took, Held
	// (for how long the lock was held), Holder, and Err (what Unlock returned): one that
	// matches ErrLost if the lock was not held to the end, ErrNoQuorum if the release was
	// not confirmed. Once more for each repetition that asked the nodes again.
	EventReleased EventKind = "released"

	// EventHoldEnded: a lock is not kept any more, and the contexts of KeepAlive and Do
	// have ended; when that happens, and not only when somebody finds out. Op is
	// OpExtend. Resources, Held (how long the lock has been held), Until, Holder, and
	// Err, their cause: ErrExpired or ErrLost for a loss, ErrMaxHold, ErrClosed; nil for
	// a release.
	EventHoldEnded EventKind = "hold ended"

	// EventDone: a Do that had got its lock has returned. Op, Resources, Took (of the
	// whole call), Held, Holder, and Err (what Do returned).
	EventDone EventKind = "done"

	// EventHoldAtRisk: an extension by KeepAlive or Do has failed (Err), and less
	// than half of the validity is left. Op, Resources, Until, Holder. Once, until an
	// extension succeeds again.
	EventHoldAtRisk EventKind = "hold at risk"

	// EventWaiting: a Lock call waits: it has been refused, or stands behind others of
	// this process that want one of its resources. Op, Resources, Attempt (how many it
	// has made so far), Took (how long the call has waited), Position (its place in the
	// line of this process, 1000 if it is further back; 1 talks to the nodes), and Err,
	// what its last attempt saw. When it begins to wait, and after every attempt that
	// has failed since.
	EventWaiting EventKind = "waiting"

	// EventOverloaded: attempts to lock were turned away, as more was asked for than the
	// nodes can answer in time. TurnedAway is how many were since the last such event;
	// Op, Resources, Attempt, Votes and Err are the last one's. At most once a second.
	// For those attempts there is neither EventDecided nor EventSettled.
	EventOverloaded EventKind = "overloaded"

	// EventPolling: Lock calls that wait hear nothing of releases from Node, because
	// of Err: the pool has no second connection to give, or the server's ACL forbids
	// SUBSCRIBE or PUBLISH. They poll. Once, until it works again. Not sent when the
	// node is down.
	EventPolling EventKind = "polling"
)

// An Event is something that happened in a Redlock. It may get more fields.
// Its slices belong to the hook.
type Event struct {
	Kind EventKind
	Time time.Time

	// Call is the same in all events of one call of TryLock, Lock, Do, Extend, KeepAlive
	// or Unlock on this Redlock, and only in those. What happens within a Do or because of
	// a KeepAlive belongs to that call: the attempts, the extensions, the release of Do;
	// but not what the function of Do calls itself. 0 in events of nodes.
	Call uint64

	Op        Op
	Resources []string
	Attempt   int // of a Lock call, from 1; 0 for other operations
	Votes     []Vote
	Took      time.Duration
	Until     time.Time
	Err       error

	// Holder is the digest of the lock's token, by which its events belong together. To
	// those that it keeps out, it is the Holder in their votes.
	Holder string
	Fence  int64         // 0 without WithFencing
	Waited time.Duration // see EventAcquired
	Held   time.Duration // counted from the start of the attempt that got the lock

	// Owner is the label of the lock that the event is about, or that is asked for:
	// this client's own, by [WithOwner]. Who holds a lock that was refused is in
	// Votes. Set with Resources, wherever these are.
	Owner string

	Position int

	TurnedAway int // attempts

	Node    string
	Unknown int
	Cleaned int
}

// A Hook is told what happens. It is called on a goroutine of its own, with one
// event at a time, in the order in which things happened: it may block, may use
// the Redlock (but not wait for Close, which waits for it), and need not be safe
// for concurrent use. A slow one delays only later events; when 4096 of them
// wait, besides those that are being delivered, further ones are dropped and
// counted in Stats. ctx carries the values of the context of the call that the event
// belongs to, but is never cancelled; for events of nodes it is empty.
// Close delivers what is waiting, as long as its own context allows.
type Hook func(ctx context.Context, e Event)

const maxEvents = 4096

// A dispatcher calls the hook. Its goroutine exists while events wait.
type dispatcher struct {
	hook    Hook // nil: nobody listens
	dropped atomic.Int64
	calls   atomic.Uint64 // named so far

	mu      sync.Mutex
	waiting []hookCall
	running bool
	idle    chan struct{} // closed when running ends; nil while nobody waits for that
}

type hookCall struct {
	ctx   context.Context //nolint:containedctx // It is carried to the hook, not kept.
	event Event
}

// on reports whether it is worth making an event.
func (d *dispatcher) on() bool { return d.hook != nil }

type callKey struct{}

// call returns ctx with a name for a call, which its events get, if somebody listens.
func (d *dispatcher) call(ctx context.Context) context.Context {
	if d.hook == nil {
		return ctx
	}
	return context.WithValue(ctx, callKey{}, d.calls.Add(1))
}

// send queues an event. It never blocks, so it may be called under locks.
func (d *dispatcher) send(ctx context.Context, e Event) {
	if d.hook == nil {
		return
	}
	e.Time = time.Now()
	e.Call, _ = ctx.Value(callKey{}).(uint64)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) >= maxEvents {
		d.dropped.Add(1)
		return
	}
	d.waiting = append(d.waiting, hookCall{context.WithoutCancel(ctx), e})
	if !d.running {
		d.running = true
		go d.run()
	}
}

func (d *dispatcher) run() {
	var calls []hookCall
	ended := false
	defer func() {
		if !ended {
			// The hook has ended its goroutine (testing's FailNow does). Go on with
			// the rest on another one. A panic ends the process all the same.
			d.mu.Lock()
			d.waiting = append(calls, d.waiting...)
			d.mu.Unlock()
			go d.run()
		}
	}()
	for {
		d.mu.Lock()
		calls, d.waiting = d.waiting, nil
		if len(calls) == 0 {
			d.running = false
			if d.idle != nil {
				close(d.idle)
				d.idle = nil
			}
			ended = true
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		for len(calls) > 0 {
			c := calls[0]
			calls = calls[1:]
			d.hook(c.ctx, c.event)
		}
	}
}

// drain waits until every event has been delivered, or for ctx.
func (d *dispatcher) drain(ctx context.Context) {
	d.mu.Lock()
	if !d.running {
		d.mu.Unlock()
		return
	}
	if d.idle == nil {
		d.idle = make(chan struct{})
	}
	idle := d.idle
	d.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}
