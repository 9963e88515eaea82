package redlock

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/clockwatch"
	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/internal/waiting"
)

// A Lock is a lock that was acquired: a lease that ends at Until whatever its holder does. It is safe for concurrent
// use. Only a Redlock makes one: the methods of a nil or zero Lock fail, with an error or a panic.
type Lock struct {
	r        *core
	o        *options
	terms    *terms // what it was taken for
	claim    *claim
	attempts int32
	isWanted bool // the channel of Wanted is closed; guarded by mu

	mu     sync.Mutex // taken before a round's and the clock watch's
	rules  lease.Lease
	hold   *hold         // nil before the first KeepAlive
	wanted chan struct{} // of Wanted; nil before its first call

	released releaseState
	share    *share           // nil: the lock is not part of a turn
	entry    clockwatch.Entry // the watch's
}

// invalid returns why l is not a usable Lock, nil if it is one.
func (l *Lock) invalid() error {
	switch {
	case l == nil:
		return errNilLock
	case l.r == nil:
		return errZeroLock
	default:
		return nil
	}
}

// use notes that work may begin under l. WithMinHold counts from here and not from the start of the attempt: callers
// see the min hold begin when they get the lock, however long the nodes took.
func (l *Lock) use() {
	if l.o.minHold > 0 && l.claim.keptUntil.Load() == nil {
		until := time.Now().Add(l.o.minHold)
		l.claim.keptUntil.Store(&until)
	}
}

// Resources returns the locked resources, sorted, each once, without the prefix. The slice belongs to the caller.
func (l *Lock) Resources() []string {
	must(l.invalid())
	return slices.Clone(l.claim.resources)
}

// Token returns the value that the resources' keys hold on the nodes: random, unique to this
// lock, and with the label of [WithOwner] at its end. Whoever has it and reaches the nodes can
// release the lock, as another process does with [Redlock.Release]: do not show it to others.
func (l *Lock) Token() string {
	must(l.invalid())
	if l.share != nil {
		return l.ownToken()
	}
	return l.claim.token()
}

// Holder returns a digest of the token, for logs. [Vote.Holder], [Inspection], [WaitingCall] and
// [Event] show others the same digest. It cannot be used to release the lock.
func (l *Lock) Holder() string {
	must(l.invalid())
	return tokens.Digest(l.claim.token())
}

// Owner returns the lock's label of [WithOwner], or "" if it has none.
func (l *Lock) Owner() string {
	must(l.invalid())
	return l.o.owner
}

// Fence returns the lock's fencing token, by which the resource can refuse writes of earlier
// holders: at least 1 and below 2^53, or 0 without [WithFencing].
//
// It is larger than the fence of every lock on one of the same resources that was acquired before this lock was asked
// for, and no two such locks have the same fence. That holds whatever clocks, pauses and the network do, as long as
// no node loses its counters; see [WithFenceLife] and docs/safety.md. Extensions keep it. A lock that was passed on (see
// [WithTurn]) has a fence of its own, and counts as asked for when the first lock of its turn was. Fences of locks that have
// no resource in common say nothing about each other.
func (l *Lock) Fence() int64 {
	must(l.invalid())
	if l.share != nil {
		return l.share.fence
	}
	return l.claim.fence
}

// Attempts returns how many attempts the call made to get the lock, at least 1: the first one,
// timed retries (including those made in line), and those that a release set off. Resolving a
// split vote, or getting in line, is part of its attempt.
func (l *Lock) Attempts() int {
	must(l.invalid())
	return int(l.attempts)
}

// Until returns when the lock ends unless it is extended: ttl less the drift allowance after the start of the
// attempt, or after the start of an extension, if that is later. [WithMinHold] may raise the ttl. No quorum of keys
// can expire before. A loss or a release does not change it; see [Lock.Err] for those.
func (l *Lock) Until() time.Time {
	must(l.invalid())
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rules.Until.Mono
}

// Err returns nil while the lock is held; ErrExpired once Until has come, or would have come if the machine had not
// slept; ErrLost once the lock was found lost or its release has begun. It does no I/O: a lock whose keys were
// deleted counts as held until an extension or the end of its validity shows it.
//
// A nil may be out of date when Err returns it: the process may be suspended between this call and its next step.
func (l *Lock) Err() error {
	if err := l.invalid(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errLocked(time.Now())
}

// Wanted returns a channel, always the same one, that is closed when a Lock or Do waits for one of the lock's
// resources. A call of this Redlock closes it at once, that of another process at the next extension by KeepAlive, Do
// or Extend: without any, it is not seen. Nor are TryLock, calls with [WithPolling], and other libraries. The waiter
// may have given up since; one whose process has died counts for a minute or more. The end of the lock does not close
// the channel. Permits of a semaphore do not all hear of a waiter; see docs/semaphore.md.
func (l *Lock) Wanted() <-chan struct{} {
	must(l.invalid())
	l.mu.Lock()
	first := l.wanted == nil
	if first {
		l.wanted = make(chan struct{})
	}
	l.mu.Unlock()
	if !first {
		return l.wanted // Without another look at the queue, as each is a draw for a permit.
	}
	if l.Err() == nil { // An ended lock could hide a later one of this process.
		l.r.watch.Want(l, &l.entry) // Before the look at the queue: calls that join it later look here.
	}
	waits := false
	l.r.line.Do(func(q *waiting.Queue, _ time.Time) { waits = q.Waits(l.claim.keys) })
	if waits {
		l.want()
	}
	return l.wanted
}

// want is called when a waiter was seen. It closes the channel of Wanted, if there is one. A waiter for a permit waits
// for any of the k permits, and all k holders see it. So each permit closes its channel with probability 1/k only: on
// average one holder makes room, and the next extensions draw again if somebody still waits.
func (l *Lock) want() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted != nil && !l.isWanted && rand.N(max(l.o.oneOf, 1)) == 0 {
		l.isWanted = true
		close(l.wanted)
	}
}

// errLocked returns why the lock has ended, nil if it is held. l.mu is held.
func (l *Lock) errLocked(now time.Time) error { return verdictError(l.rules.Check(now)) }

// event returns an event about the lock. Each call ends with one, so that traces and metrics can be made from the hook
// alone. l.mu is held.
func (l *Lock) event(kind EventKind, op Op) Event {
	return Event{
		Kind: kind, Op: op, Resources: slices.Clone(l.claim.resources), Owner: l.o.owner,
		Holder: tokens.Digest(l.claim.token()), Until: l.rules.Until.Mono, Held: l.rules.Lasted,
	}
}

// tell sends the event of the end of a call about the lock, which began at began and ends with err.
func (l *Lock) tell(ctx context.Context, kind EventKind, op Op, began time.Time, err error) {
	if err == nil && !l.r.events.On() {
		return // Nobody listens, and successes are not kept.
	}
	e := Event{Kind: kind, Op: op, Resources: l.claim.resources, Owner: l.o.owner, Took: time.Since(began), Err: err}
	l.mu.Lock()
	e.Held, e.Kept = l.rules.Lasted, l.hold != nil
	e.Passed = kind == EventReleased && l.released.passed
	l.mu.Unlock()
	l.r.end(ctx, e, l.fill)
}

// fill sets the fields of an event that describe the lock. Without a lock it sets nothing.
func (l *Lock) fill(e *Event) {
	if l != nil {
		e.Holder, e.Until = l.Holder(), l.Until()
	}
}

func (l *Lock) text() string {
	if err := l.invalid(); err != nil {
		return plain(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	s := "lock " + named(l.claim.resources, l.r.defaults.prefix)
	switch ended := l.errLocked(now); {
	case ended == nil:
		return s + fmt.Sprintf(": held for another %s", brief.Duration(l.rules.Until.Remaining(l.r.clock.At(now))))
	case l.rules.Release != lease.Held && l.rules.Before == lease.Undecided:
		return s + ": released"
	default:
		return s + ": " + strings.TrimPrefix(plain(ended), "lock ")
	}
}

// Format prints, whatever the verb, which resources are locked and for how long. Without it, fmt would
// print the fields, including the token, with which anybody can release the lock.
func (l *Lock) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, l.text()) }

// contextLocks are the locks of the Do and KeepAlive from which a context is derived, the innermost first.
type contextLocks struct {
	lock  *Lock
	outer *contextLocks
}

type locksKey struct{}

// FromContext returns the lock of the innermost Do or KeepAlive from which ctx is derived, and
// whether there is one. It panics if ctx is nil.
func FromContext(ctx context.Context) (*Lock, bool) {
	must(misused(ctx, nil))
	locks, ok := ctx.Value(locksKey{}).(*contextLocks)
	if !ok {
		return nil, false
	}
	return locks.lock, true
}

// holds returns the first of the resources that a lock in ctx holds. A call that waits for it would wait for itself.
func (co *core) holds(ctx context.Context, resources []string) (resource string, found bool) {
	locks, _ := ctx.Value(locksKey{}).(*contextLocks)
	for ; locks != nil; locks = locks.outer {
		if l := locks.lock; l.r == co && l.Err() == nil {
			if resource, found = l.claim.shared(resources); found {
				return resource, true
			}
		}
	}
	return "", false
}
