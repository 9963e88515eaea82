package redlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// A Lock is a lock that was acquired: a lease that ends at Until whatever its
// holder does. It is safe for concurrent use.
type Lock struct {
	r        *Redlock
	o        *options
	claim    *claim
	attempts int
	ttl      time.Duration // what it was taken for
	start    time.Time     // of the attempt

	mu       sync.Mutex
	until    deadline
	extended time.Time // start of the last extension that succeeded, or of the attempt
	ended    error     // ErrLost once the lock was lost or its release has begun; terminal
	hold     *hold     // nil before the first KeepAlive
	begun    bool      // a release has begun
	before   error     // how the lock had ended before that: ErrLost, ErrExpired, or nil
	repairs  []bool    // by node: a repair is on its way there; nil before the first one

	unlocking bool          // a release is running
	ready     chan struct{} // closed when it ends; nil while nobody waits for that
	unlocked  bool          // a release has come to a final result
	result    error         // of the last one that ended
}

// Resources returns the locked resources, sorted, each once. The caller owns
// the slice.
func (l *Lock) Resources() []string { return slices.Clone(l.claim.resources) }

// Token returns the random value that the resources' keys hold on the nodes. It
// is what it takes to release the lock: do not show it to others.
func (l *Lock) Token() string { return l.claim.token }

// Fence returns the lock's fencing token, for the resource to refuse writes of earlier
// holders by: 0 without [WithFencing], otherwise 1 or more and below 2^53. It is larger
// than the fence of every lock on one of the same resources that was got before this
// one was asked for, and no two such locks have the same one, whatever clocks, pauses
// and the network do, as long as no node loses its counters; see [WithFenceLife] and
// docs/safety.md. Extensions keep it. Fences of locks that have no resource in common say nothing about each other.
func (l *Lock) Fence() int64 {
	if l.claim.fencing == nil {
		return 0
	}
	return l.claim.fencing.fence
}

// Attempts returns how many attempts it took, 1 or more: the first, timed retries
// (also those that stood in line behind others), and those that a release has set
// off. What was needed to resolve a split vote, or to get in line, is part of its
// attempt.
func (l *Lock) Attempts() int { return l.attempts }

// Until returns when the lock ends unless it is extended: the start of the
// attempt plus the ttl less the drift allowance; after an extension, the same from
// its start, if that is later. No quorum of keys can expire before. It is not
// changed by a loss or a release; see Err for that.
func (l *Lock) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until.mono
}

// Err returns nil while the lock is held; ErrExpired once the monotonic or the
// wall clock has reached Until; ErrLost once it was lost or its release has
// begun. It asks no node: a lock whose keys were deleted is held by its own
// account until an extension or the end of its validity shows it.
//
// A nil is already history when it is returned: the process may be suspended
// between this call and what it does next.
func (l *Lock) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errLocked(time.Now())
}

// errLocked makes an expiry terminal, so that a wall clock that is set back
// cannot revive the lock. l.mu is held.
func (l *Lock) errLocked(now time.Time) error {
	if l.ended == nil && l.until.passed(now, l.r.wall()) {
		l.ended = ErrExpired
	}
	return l.ended
}

// Extend sets the lock to end ttl (less the drift allowance) from the start of
// this call, on all nodes that still have it. It never shortens: Until becomes
// the later of the old and the new one.
//
// After an error Until is as it was, nothing was deleted, and the lock is still
// held if it was and the error does not match ErrLost. Errors: *QuorumError
// with ErrNoQuorum (too few nodes answered, or so late that nothing is left of
// the new ttl: try again while the validity lasts) or ErrLost (so many nodes said
// that their key is gone or another's that no quorum is left; the lock is over);
// ErrExpired at once, without I/O, after Until, or if the quorum came only after
// it; ErrLost at once after Unlock; the context's error. A lock that has lapsed is
// never created again.
//
// Nodes that have lost the key (a restart without data, a flush) get it again in
// the background after a successful extension, so that a lock that is held for
// long does not decay.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	return l.extend(ctx, ttl, nil)
}

// extend is Extend for a hold, or for a caller if h is nil.
func (l *Lock) extend(ctx context.Context, ttl time.Duration, h *hold) error {
	if err := l.o.checkTTL(ttl); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &waitError{op: OpExtend, resources: l.claim.resources, cause: err}
	}
	start, wall := time.Now(), l.r.wall()
	l.mu.Lock()
	lapse, err := l.until, l.errLocked(start)
	l.mu.Unlock()
	if err != nil {
		l.lost()
		return &waitError{op: OpExtend, resources: l.claim.resources, cause: err}
	}
	until := newDeadline(start, validity(ttl, l.o.driftFactor), wall)
	l.claim.grow(ttl)
	rd := l.r.newRound(ctx, OpExtend, l.claim, l.claim.extendCommand(ttl), askKind, decideExtend, 0)
	rd.until = until
	rd.extension = &extension{lapse: lapse, settle: func(votes []Vote) { l.repair(votes, ttl) }}
	timeout := l.o.nodeTimeout
	if h != nil {
		timeout = min(timeout, l.validity()/2) // A second one must still fit in.
	}
	rd.ask(start, timeout)
	waited := rd.wait(ctx, nil)
	err = l.applyExtension(rd, h, start, until, waited)
	if errors.Is(err, ErrLost) {
		l.lost()
	}
	return err
}

// applyExtension applies the result of an extension. One whose lock was released
// or lost meanwhile changes nothing: the lock stays lost. Nor does one for a hold
// that has ended: it is not to be kept any more.
func (l *Lock) applyExtension(rd *round, h *hold, start time.Time, until deadline, waited error) error {
	v, _ := rd.result()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if err := l.errLocked(now); err != nil {
		return l.r.fail(rd, err)
	}
	if v == expired {
		v = granted // But only until the end that another extension has moved meanwhile.
	}
	switch {
	case v == granted && h != nil && h.over:
		return nil
	case v == granted && !until.passed(now, l.r.wall()):
		l.until = l.until.later(until)
		if start.After(l.extended) {
			l.extended = start
		}
		l.r.counters.extended.Add(1)
		return nil
	case v == granted:
		return l.r.fail(rd, ErrNoQuorum) // Too late to be worth anything.
	case v == lost:
		l.ended = ErrLost
		return l.r.fail(rd, ErrLost)
	case waited != nil:
		return &waitError{op: OpExtend, resources: l.claim.resources, cause: waited, last: l.r.quorumError(rd, ErrNoQuorum)}
	default:
		return l.r.fail(rd, v.err())
	}
}

// lost ends what hangs on the lock: an extension has found that it was lost, has
// expired or was released.
func (l *Lock) lost() {
	l.r.held.remove(l)
	l.mu.Lock()
	h := l.hold
	l.mu.Unlock()
	if h != nil {
		h.look()
	}
}

// Unlock releases the lock. From the call on it is not held any more, whatever
// the result. It ignores the cancellation of ctx, whose values the hook gets,
// and takes at most the node timeout.
//
// It stops KeepAlive first: an extension that is on its way can neither revive
// the lock nor delay this.
//
// With [WithMinHold], keys whose time is not over yet are not deleted, but set to
// expire then; the rest is the same.
//
// nil: need nodes have confirmed that the key is not this lock's any more, and
// the lock was still this holder's. Repeated after that: nil, without I/O.
// Errors, as a *QuorumError: ErrLost if it was gone or another's on so many
// nodes that it had been lost before, ErrExpired if that is so and Until has
// passed; ErrNoQuorum if too few nodes answered. After ErrNoQuorum it may be
// repeated; nodes that come back within the keys' life are told in the
// background in any case, while the Redlock is open.
//
// Within the drift allowance after Until the keys may still be there: nil then,
// too. Whether the lock was held to the end, Err says before the Unlock; Do looks.
//
// Unlock returns at the decision; the release of the other nodes goes on in the
// background. Call Close before the process exits.
func (l *Lock) Unlock(ctx context.Context) error { //nolint:contextcheck // It is ignored but for its values.
	l.mu.Lock()
	if l.unlocking { // Then its result is this call's, too.
		if l.ready == nil {
			l.ready = make(chan struct{})
		}
		ready := l.ready
		l.mu.Unlock()
		<-ready
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.result
	}
	if l.unlocked {
		defer l.mu.Unlock()
		return l.result
	}
	l.unlocking = true
	t := l.r.teller(l.claim)
	now := time.Now()
	prior := l.errLocked(now)
	late := errors.Is(prior, ErrExpired) || l.until.passed(now, l.r.wall())
	if !l.begun {
		l.begun, l.before = true, prior
	}
	if l.ended == nil {
		l.ended = ErrLost
	}
	h, end := l.hold, func() {}
	if h != nil {
		end = h.endLocked(l.before)
	}
	l.mu.Unlock()
	l.r.held.remove(l)
	end()

	if l.o.minHold > 0 {
		l.claim.leaveUntil(l.start.Add(l.o.minHold))
	}
	if ctx == nil {
		ctx = context.Background() // Or a node's goroutine would panic.
	}
	rd := l.r.newRound(ctx, OpUnlock, l.claim, l.claim.releaseCommand(now), releaseKind, decideUnlock, 0)
	t.round, rd.task.voter = rd, t
	for i, n := range l.r.nodes {
		// When a release is repeated: asked again, a node that has already removed
		// the key would seem to have lost it.
		if n.confirmed(l.claim, i) {
			rd.skip(i, Vote{Node: n.name, stance: yes})
		}
	}
	rd.ask(time.Now(), l.o.nodeTimeout)
	early := l.o.minHold == 0 && l.r.queue.handOverEarly(l.claim)
	<-rd.decided
	v, _ := rd.result()
	if v == granted && !early && !t.told.Load() {
		l.r.queue.handOver(l.claim.keys)
	}
	if h != nil {
		h.leave()
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlocked, l.result = true, nil
	switch {
	case v == granted:
		l.r.counters.unlocked.Add(1)
	case v == lost && late:
		l.result = l.r.fail(rd, ErrExpired)
	case v == lost:
		l.result = l.r.fail(rd, ErrLost)
	default:
		l.unlocked, l.result = false, l.r.fail(rd, ErrNoQuorum)
	}
	l.unlocking = false
	if l.ready != nil {
		close(l.ready)
		l.ready = nil
	}
	return l.result
}

// fail counts a failed round and returns the error for it.
func (r *Redlock) fail(rd *round, reason error) error {
	r.counters.failed(reason)
	return r.quorumError(rd, reason)
}

func (r *Redlock) quorumError(rd *round, reason error) error {
	return &QuorumError{
		Op: rd.op, Resources: slices.Clone(rd.resources), Need: r.need, Attempt: rd.attempt,
		Votes: rd.copyVotes(), reason: reason,
	}
}
