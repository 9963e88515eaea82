package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/seed6c881748/redlock/internal/admission"
	"github.com/seed6c881748/redlock/internal/calls"
	"github.com/seed6c881748/redlock/internal/clockwatch"
	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/dispatch"
	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/lines"
	"github.com/seed6c881748/redlock/internal/link"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// A Redlock locks resources over its nodes. It is safe for concurrent use. A process needs one
// for each set of nodes, as all callers share its connections. Only [New] makes one: the methods
// of a nil or zero Redlock fail, with an error or a panic.
type Redlock struct {
	core

	releasing singleflight.Group // calls of Release, by resources and token
	done      chan struct{}      // closed when Close has finished
}

// invalid returns why r is not a usable Redlock, nil if it is one.
func (r *Redlock) invalid() error {
	switch {
	case r == nil:
		return errNilRedlock
	case r.need == 0:
		return errZeroRedlock
	default:
		return nil
	}
}

// New returns a Redlock over nodes, in the order in which votes are reported. It checks its arguments and does no
// I/O: nodes are connected to when they are first needed, and may be down. opts become the defaults of every call.
// The error names the node or the value that is wrong. Call [Redlock.Close] when you no longer need the Redlock.
//
// A node that was wrong from the beginning is not noticed by calls, as the others make a quorum. So after two
// attempts to connect to it that have failed, and the connect timeout, a warning says which node, why, and how
// many may still fail. It goes to slog's default logger, once for each node, unless [WithHook] sets a hook, which
// has EventNodeDown, or [WithoutLog] is given.
//
// All clients of a resource must be given the same nodes. The quorum is more than half of them.
// Three or five are usual; an even number works, but tolerates no more failures than one less.
func New(nodes []Node, opts ...Option) (*Redlock, error) {
	o := defaultOptions()
	if err := o.apply(opts); err != nil {
		return nil, err
	}
	o.waitHere, o.turnHere = false, false // They hold for options of one call.
	if len(nodes) == 0 {
		return nil, errors.New("redlock: no nodes")
	}
	r := &Redlock{
		core: core{
			need:      quorum(len(nodes)),
			defaults:  o,
			admission: calls.NewGate(),
			calls:     calls.New(ErrClosed),
		},
		done: make(chan struct{}),
	}
	r.events = dispatch.New(listener(o.hook, o.tracer), stamp)
	if o.quarantine > 0 {
		r.quarantine = quarantine.New(o.prefix+reservedMark+quarantine.Mark, len(nodes), o.quarantine, grantingScripts)
	}
	r.clock = clockwatch.NewClock(r.wall)
	r.rules = lease.Config{
		Need: r.need, Clock: r.clock.At, Takes: r.takes, Random: rand.N[time.Duration], Digest: tokens.Digest,
		Reserved: errReserved, Pending: ErrPending, TooLate: errTooLate,
	}
	r.watch = clockwatch.New(r.calls.Enter, r.calls.Exit, r.clock)
	r.line = calls.NewLine(len(nodes), r.need, r.pass)
	r.channel = o.prefix + reservedMark + lines.ChannelMark + tokens.New()[:16]
	r.subscriptions = link.Subscriptions{Need: r.need, Channel: r.channel, Message: r.message, Changed: r.listening}
	seen := make(map[string]int, len(nodes))
	for i, n := range nodes {
		number := fmt.Sprintf("%d of %d", i+1, len(nodes)) // As people count; the tool shows the same.
		if d, ok := n.Pool.(*conn.Dialer); ok && d.Err != nil {
			return nil, fmt.Errorf("redlock: node %s: %w", number, d.Err)
		}
		if n.Name == "" {
			return nil, fmt.Errorf("redlock: node %s has no name", number)
		}
		if err := conn.CheckPool(n.Pool); err != nil {
			return nil, fmt.Errorf("redlock: node %s (%s): %w", number, n.Name, err)
		}
		if j, ok := seen[n.Name]; ok {
			return nil, fmt.Errorf("redlock: nodes %d and %s are both named %q", j+1, number, n.Name)
		}
		seen[n.Name] = i
		l := r.newLink(n, len(nodes) == 1)
		r.subscriptions.Add(l)
		r.nodes = append(r.nodes, l)
	}
	r.notes = newNotes(&r.core)
	return r, nil
}

// newLink returns the link to one of the nodes, or to the single one.
func (co *core) newLink(n Node, single bool) *link.Link {
	o := &co.defaults
	c := link.Config{
		Name: n.Name, Pool: n.Pool, Single: single,
		ConnectTimeout: o.connectTimeout, Scripts: handshakeScripts, Readiness: &co.ready,
		Report: (&nodeFacts{r: co, name: n.Name}).report,
		Node: node.Config{
			Timeout: o.nodeTimeout, Silence: admission.Silence, Age: o.connectionAge, Clock: co.clock.At,
			UnusedKey:     o.prefix + reservedMark + "none:" + tokens.New()[:16],
			MaxUnanswered: co.admission.UnansweredLimit().Load, IsEnough: co.isEnough,
		},
	}
	if co.quarantine != nil {
		c.Dialect, c.Scripts = co.quarantine, otherScripts
	}
	return link.New(c)
}

// newAcquisition checks the arguments of a Lock or TryLock and enters the call, which the caller must exit. The error
// matches ErrNotAcquired.
func (r *Redlock) newAcquisition(ctx context.Context, resources []string, ttl time.Duration, opts []Option) (*acquisition, error) {
	a := new(acquisition)
	err := misused(ctx, r.invalid())
	if err == nil {
		err = a.prepare(ctx, &r.core, resources, ttl, opts)
	}
	if err == nil {
		err = r.calls.Enter()
	}
	if err != nil {
		return nil, &waitError{op: OpLock, resources: a.resources, cause: err}
	}
	return a, nil
}

// TryLock makes one attempt to lock all resources together for ttl. It does not wait for a
// holder: if somebody else has any of the resources, it fails. That one may be a client that asks at the
// same time and gets no lock in the end. So do not leave work that must be done to whoever has been
// faster: wait with [Redlock.Lock]; see [WithMinHold].
//
// After success the lock is held until [Lock.Until], which is ttl less the drift allowance after the start of the
// attempt, unless it is extended or released before. After an error nothing is held, and keys that the attempt has
// left on nodes are being removed in the background.
//
// Every error matches ErrNotAcquired. It is a *[QuorumError] that matches ErrTaken or ErrNoQuorum; or the context's
// error if ctx ended first, which also matches the result of the votes until then; or ErrAlreadyHeld or ErrClosed; or
// it says what is wrong with an argument. Nothing was sent if an argument is wrong or ctx had ended before the call.
//
// A call takes at most the node timeout, and before that the connect timeout if no quorum is
// connected yet. It takes the node timeout once more if several clients began at the same time
// and none reached a quorum at first: the attempt resolves that, so that one of them wins. With
// [WithFencing] it may take it a third time, if the nodes' counters differ.
//
// If callers ask for more than the nodes can answer in time, the attempt waits for its turn for a part of the node
// timeout. If its turn does not come, it fails with ErrNoQuorum, no node was asked, and all votes are ErrOverloaded.
//
// A lock on several resources is all or nothing. A resource given twice is locked once. There
// may be at most 4 096 resources, and their keys may have at most 512 KiB together. ttl is at
// least 1 ms, and long enough that the drift allowance leaves something of it.
func (r *Redlock) TryLock(ctx context.Context, resources []string, ttl time.Duration, opts ...Option) (*Lock, error) {
	a, err := r.newAcquisition(ctx, resources, ttl, opts)
	if err != nil {
		return nil, err
	}
	defer r.calls.Exit()
	if a.o.waitHere {
		return nil, &waitError{op: OpLock, cause: errors.New("redlock: WithWait is for Lock and Do: TryLock does not wait")}
	}
	ctx = r.begin(r.events.Call(ctx), OpLock, a.resources)
	l, err := a.attempt(ctx, 1, joining{})
	a.tell(ctx, l, err)
	if err == nil {
		l.use()
	}
	return l, err
}

// Lock locks all resources together for ttl as [Redlock.TryLock] does, and retries a failed
// attempt after the retry delay, as often as the retry count says: by default ten times, which is
// about 2 s. With WithRetryCount(-1) it waits until ctx ends.
//
// The error is that of the last attempt, and matches ErrNotAcquired. If ctx or the Redlock ends first, it matches the
// context's error or ErrClosed, and also the result of the last attempt that was not cut short.
//
// A release by another client of this package wakes a Lock that waits, in about the order in which the callers came,
// in this process and across processes. A lost message, or a holder that dies, costs a waiter at most a retry delay,
// since it polls all the same. In a process, calls that wait for a common resource stand in one line, and only the
// first talks to the nodes. So a call that waits for several resources holds up those behind it that want only one of
// them. See docs/waiting.md, and [WithPolling].
//
// After an attempt that was turned away because of an overload (see TryLock), Lock waits
// longer: at least the node timeout, doubled each time up to 5 s, ± 50 %.
//
// ctx limits the call only. Give the work under the lock a context of its own, for example one
// with the deadline [Lock.Until] if the lock is not extended.
func (r *Redlock) Lock(ctx context.Context, resources []string, ttl time.Duration, opts ...Option) (*Lock, error) {
	a, err := r.newAcquisition(ctx, resources, ttl, opts)
	if err != nil {
		return nil, err
	}
	defer r.calls.Exit()
	l, err := a.lock(r.events.Call(ctx))
	if err == nil {
		l.use()
	}
	return l, err
}

// Close ends the Redlock. It refuses new locks with ErrClosed, ends the waits and attempts of running calls, and ends
// the contexts of Do and KeepAlive with the cause ErrClosed. Then it waits until Do has returned and the locks of
// KeepAlive have been unlocked or have ended, lets releases that run in the background finish, and closes the
// connections: those from pools go back to them.
//
// It never releases a lock that is held, and does not wait for one that is held without
// KeepAlive: unlock first. Once the connections are closed, Unlock and Extend fail with
// ErrNoQuorum, and match ErrClosed, too; the keys end with their ttl.
//
// It waits at most the node timeout for nodes that hang, or that are down and have releases
// pending, and for nothing after ctx has ended. The error is that of ctx, if ctx ended before
// everything was done. nil means that all nodes that could be reached were told, not that every
// key is gone. Close may be called again: it waits for the first call to end.
//
// A process that exits right after an Unlock or a failed attempt must call Close first.
// Otherwise releases that are still on their way are cut off.
func (r *Redlock) Close(ctx context.Context) error {
	if err := misused(ctx, r.invalid()); err != nil {
		return err
	}
	if !r.calls.Close() {
		select {
		case <-r.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer close(r.done)
	r.interrupt()
	r.notes.close()
	r.admission.Close(ErrClosed)
	r.watch.Close()
	select {
	case <-r.calls.Quiet:
	case <-ctx.Done():
	}
	r.disconnect(ctx)
	r.events.Drain(ctx)
	return ctx.Err()
}

// disconnect closes the connections of subscriptions and of nodes at the same time, so that a hanging node costs the
// node timeout once.
func (r *Redlock) disconnect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.defaults.nodeTimeout)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { r.subscriptions.Close(ctx) })
	for _, n := range r.nodes {
		all.Go(func() { n.Close(ctx) })
	}
	all.Wait()
}

// The functions of package settings: what other packages of the library, but not users, may do with a Redlock and its
// locks.
func init() {
	settings.Enter = func(r any) (exit func()) {
		c := r.(*Redlock).calls
		if c.Enter() != nil {
			return func() {}
		}
		return c.Exit
	}
	settings.Slot = func(since *calls.Since, k int) any {
		return option(nil, func(o *options) { o.onBehalf, o.oneOf = since, int32(k) })
	}
	settings.Plain = func() any {
		return option(nil, func(o *options) { o.fencing, o.minHold, o.maxHold, o.stopTime, o.turn = false, 0, 0, 0, 0 })
	}
	settings.IsFree = func(ctx context.Context, r any, resource, owner string) error {
		return r.(*Redlock).isFree(ctx, resource, owner)
	}
	settings.Holds = func(ctx context.Context, r any, resources []string) (held bool) {
		_, held = r.(*Redlock).holds(ctx, resources)
		return held
	}
	settings.FnError = func(err error) error { return fnError{err} }
	settings.SetDifferences = func(label string, names, answers []string) any { return setDifferences(label, names, answers) }
	settings.Use = func(l any) { l.(*Lock).use() }
	settings.Unused = func(l any) { l.(*Lock).claim.keptUntil.Store(nil) }
	settings.Inside = func(r any) settings.Parts {
		c := &r.(*Redlock).core
		return settings.Parts{WallOffset: &c.wallOffset, Line: c.line, Gate: c.admission}
	}
	settings.Of = func(r any) settings.Settings {
		o := &r.(*Redlock).defaults
		return settings.Settings{
			Prefix: o.prefix, Space: o.prefix + reservedMark, NodeTimeout: o.nodeTimeout,
			Quarantine: o.quarantine, Fencing: o.fencing, Polling: o.polling, SetName: o.setName,
		}
	}
}
