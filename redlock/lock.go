package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed6c881748/redlock/internal/admission"
	"github.com/seed6c881748/redlock/internal/conn"
)

// A Node is one Redis master: independent of the others, neither replicated to
// nor clustered with them.
type Node struct {
	Name string // stands for the node in errors and events; unique, of your choice
	Pool Pool   // see [NewNode] for one made from an address
}

// A Redlock locks resources over its nodes. It is safe for concurrent use; a
// process needs one per set of nodes, as its connections are shared by all
// callers.
type Redlock struct {
	core

	released tokenReleases
	done     chan struct{} // closed when Close has finished
}

// misused says why r cannot be used with ctx, nil if it can.
func (r *Redlock) misused(ctx context.Context) error {
	if err := r.invalid(); err != nil {
		return err
	}
	if ctx == nil {
		return errNilContext
	}
	return nil
}

// invalid says why r is no Redlock, nil if it is one.
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

// New returns a Redlock over nodes, in the order in which votes are reported. It
// checks its arguments and does no I/O: nodes are connected to when they are
// first needed, and may be down.
//
// All clients of a resource must be given the same nodes. The quorum is more
// than half of them; three or five are usual, an even number works but
// tolerates no more failures than one less.
//
// opts become the defaults of every call.
func New(nodes []Node, opts ...Option) (*Redlock, error) {
	o := defaultOptions()
	if err := o.apply(opts); err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, errors.New("redlock: no nodes")
	}
	r := &Redlock{
		core: core{
			need:      quorum(len(nodes)),
			defaults:  o,
			events:    &dispatcher{hook: o.hook},
			admission: admission.New(),
			calls:     newCalls(),
		},
		done: make(chan struct{}),
	}
	r.defaults.newOnly = ""
	r.guard = newGuard(&o, len(nodes))
	r.keeper.init(r.calls, r.wall)
	r.queue.r = &r.core
	r.channel = o.prefix + reservedMark + channelMark + newToken()[:16]
	r.ears = ears{need: r.need, channel: r.channel, message: r.queue.message, changed: r.queue.listening}
	seen := make(map[string]int, len(nodes))
	for i, n := range nodes {
		if d, ok := n.Pool.(*conn.Dialer); ok && d.Err != nil {
			return nil, fmt.Errorf("redlock: node %d: malformed address %q: %w", i, n.Name, d.Err)
		}
		if n.Name == "" {
			return nil, fmt.Errorf("redlock: node %d has no name", i)
		}
		if err := conn.CheckPool(n.Pool); err != nil {
			return nil, fmt.Errorf("redlock: node %d (%s): %w", i, n.Name, err)
		}
		if j, ok := seen[n.Name]; ok {
			return nil, fmt.Errorf("redlock: nodes %d and %d are both named %q", j, i, n.Name)
		}
		seen[n.Name] = i
		c := nodeConfig{
			name: n.Name, pool: n.Pool, session: o.prefix + reservedMark + "s:" + newToken()[:16],
			timeout: o.nodeTimeout, connectTimeout: o.connectTimeout,
			crowd: r.admission.UnansweredLimit(), scripts: handshakeScripts, watcher: &nodeObserver{&r.core, n.Name},
		}
		if r.guard != nil {
			c.dialect, c.scripts = r.guard, unguardedScripts
		}
		nd := newNode(c)
		r.ears.add(nd)
		r.nodes = append(r.nodes, nd)
	}
	return r, nil
}

// TryLock makes one attempt to lock all resources together for ttl. It does not
// wait for a holder: if another one has any of the resources, it fails.
//
// After success the lock is held until [Lock.Until], ttl less the drift
// allowance from the start of the call, unless it is extended or released
// before. After an error nothing is held, and what the attempt has left on
// nodes is being removed in the background.
//
// The error is a *QuorumError matching ErrTaken or ErrNoQuorum; the context's
// error if ctx ended first (it then also matches ErrTaken or ErrNoQuorum,
// whichever the votes so far amount to); ErrClosed; or says what is wrong with
// an argument. A call takes at most the node timeout, before that the connect timeout if
// no quorum is connected yet, and the node timeout once more if several
// clients began at the same time and no one reached a quorum at first: that is
// resolved within the attempt, so that one of them wins. With [WithFencing] it may take
// a third one, where the nodes' counters differ.
//
// When more is asked for than the nodes can answer in time, it waits for its turn, which
// is a part of the node timeout, and is turned away with ErrNoQuorum if that does not come:
// then no node was asked, and all votes are ErrOverloaded.
//
// A resource given twice is locked once. The lock on several resources is all
// or nothing. They may be [MaxResources] at most, and their keys 512 KiB together.
func (r *Redlock) TryLock(ctx context.Context, resources []string, ttl time.Duration, opts ...Option) (*Lock, error) {
	a, err := r.acquisition(ctx, resources, ttl, opts)
	if err != nil {
		return nil, err
	}
	defer r.calls.exit()
	ctx = r.events.call(ctx)
	l, err := a.attempt(ctx, 1)
	a.tell(ctx, l, err)
	return l, err
}

// Lock locks all resources together for ttl like TryLock, but retries a failed
// attempt after the retry delay, as often as the retry count says.
//
// The error is that of the last attempt. If ctx (or the Redlock) ends first, it
// matches both the context's error (or ErrClosed) and what the last attempt that
// was not cut short saw.
//
// While it waits, a release by another client of this package wakes it, in about the
// order in which the callers came, in this process and across processes. That is a
// hint, not a promise: a message that is lost, or a holder that dies, costs it at
// most a retry delay, since it polls all the same. In this process, those that wait
// for a common resource stand in one line, and only the first talks to the nodes:
// one that waits for several resources holds up those behind it that want only one
// of them. See docs/waiting.md, and [WithPolling].
//
// After an attempt that was turned away because of an overload (see TryLock) it waits for
// longer: at least the node timeout, doubled each time up to 5 s, ± 50 %.
//
// ctx limits the call only. Give the work under the lock a context of its own,
// for example one with the deadline [Lock.Until] if the lock is not extended.
func (r *Redlock) Lock(ctx context.Context, resources []string, ttl time.Duration, opts ...Option) (*Lock, error) {
	a, err := r.acquisition(ctx, resources, ttl, opts)
	if err != nil {
		return nil, err
	}
	defer r.calls.exit()
	ctx = r.events.call(ctx)
	l, err := a.run(ctx)
	a.tell(ctx, l, err)
	return l, err
}

// acquisition checks the arguments of a Lock or TryLock and enters the call.
// The caller must exit after it. The error matches ErrNotAcquired.
func (r *Redlock) acquisition(ctx context.Context, resources []string, ttl time.Duration, opts []Option) (*acquisition, error) {
	a, err := r.prepare(ctx, resources, ttl, opts)
	switch {
	case err != nil && !errors.Is(err, ErrNotAcquired):
		return nil, notAcquiredError{err}
	case err != nil:
		return nil, err
	}
	if err := r.calls.enter(); err != nil {
		return nil, &waitError{op: OpLock, resources: a.resources, cause: err}
	}
	return a, nil
}

// prepare checks the arguments.
func (r *Redlock) prepare(ctx context.Context, resources []string, ttl time.Duration, opts []Option) (*acquisition, error) {
	if err := r.misused(ctx); err != nil {
		return nil, err
	}
	a := &acquisition{r: &r.core, o: &r.defaults, ttl: ttl}
	if r.events.on() {
		a.began = time.Now()
	}
	if len(opts) > 0 {
		var err error
		if a.o, err = r.callOptions(opts); err != nil {
			return nil, err
		}
	}
	if err := a.o.checkTTL(ttl); err != nil {
		return nil, err
	}
	if err := a.o.checkHold(ttl); err != nil {
		return nil, err
	}
	var err error
	if a.resources, a.keys, err = keysOf(r.defaults.prefix, resources); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, &waitError{op: OpLock, resources: a.resources, cause: err}
	}
	if resource, ok := r.holds(ctx, a.resources); ok {
		return nil, &waitError{op: OpLock, resources: a.resources, cause: fmt.Errorf("%w: %q", ErrAlreadyHeld, resource)}
	}
	if a.o.fencing {
		a.fencing = r.fencing(a.resources, a.keys, a.o.fenceLife)
	}
	return a, nil
}

// callOptions returns the defaults with the options of a call.
func (r *Redlock) callOptions(opts []Option) (*options, error) {
	o := r.defaults
	if err := o.apply(opts); err != nil {
		return nil, err
	}
	if o.newOnly != "" {
		return nil, fmt.Errorf("redlock: %s is an option for New, not for a call", o.newOnly)
	}
	return &o, nil
}

// Close refuses new locks with ErrClosed, ends the waits and attempts of running
// calls, and ends the contexts of Do and KeepAlive with ErrClosed as their cause.
// Then it waits until Do has returned and the locks of KeepAlive have been
// unlocked or have ended, lets releases that run in the background finish, and
// closes the connections: those from pools go back to them. It waits for nodes
// that hang, or are down and owed a release, at most for the node timeout, and for
// nothing after ctx has ended. So nil means that what could be reached was told,
// not that every key is gone.
//
// It never releases a lock that is held, and does not wait for one that is held
// without KeepAlive: unlock first. Once the connections are closed, Unlock and
// Extend fail with ErrNoQuorum, and match ErrClosed, too; the keys end with their ttl.
//
// A process that exits right after an Unlock or a failed attempt needs Close
// first, or releases that are still on their way are cut off. Calling it again
// waits for the first call to end and returns nil. The error is that of ctx, if it
// ended before everything was done.
func (r *Redlock) Close(ctx context.Context) error {
	if err := r.misused(ctx); err != nil {
		return err
	}
	if !r.calls.close() {
		select {
		case <-r.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer close(r.done)
	r.admission.Close(ErrClosed)
	r.keeper.close()
	select {
	case <-r.calls.quiet:
	case <-ctx.Done():
	}
	r.disconnect(ctx)
	r.events.drain(ctx)
	return ctx.Err()
}

// disconnect closes the connections, those on which releases are heard of and
// those of the nodes at the same time, so that one that hangs costs the node
// timeout once.
func (r *Redlock) disconnect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.defaults.nodeTimeout)
	defer cancel()
	var g errgroup.Group
	g.Go(func() error {
		r.ears.close(ctx)
		return nil
	})
	for _, n := range r.nodes {
		g.Go(func() error {
			n.close(ctx)
			return nil
		})
	}
	_ = g.Wait()
}
