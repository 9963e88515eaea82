package redlock

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/waiting"
)

// A releaseState is the state of a lock's release besides its rules. The lock's mu guards it.
type releaseState struct {
	passed bool          // the lock was passed on instead of released
	begun  atomic.Bool   // for readers that cannot take the lock's mu
	loss   error         // for Do: a loss before the release, or shown by it; nil: the lock was held
	done   chan struct{} // closed when the Unlock that is running ends; nil while nobody waits for that
	result error         // of the last Unlock that ended
}

// Unlock releases the lock. From the call on, the lock is no longer held, whatever the result. Unlock ignores the
// cancellation of ctx, and takes at most the node timeout. The hook gets the values of ctx.
//
// It stops KeepAlive first: an extension that is on its way can neither revive the lock nor
// delay the release. With [WithMinHold], keys whose time is not over yet are not deleted, but
// set to expire at that time; everything else is the same.
//
// nil means that the lock was held when the call began, by this holder's clocks, and that a quorum of nodes has
// confirmed that its keys are gone; or, with [WithTurn], that it was passed on to another caller of this process. After a success, further calls return nil without I/O.
//
// An error that matches ErrLost means that the lock was not held to the end, so that somebody
// else may have had it while the work went on. The remaining keys are still released. It is
//
//   - ErrExpired if Until had passed when the call began, and ErrLost if the lock had been found
//     lost before, whatever the nodes answer now;
//   - ErrLost if the nodes say so now: the key was gone or another's on so many nodes that no
//     quorum held it. (In a repeated call it is ErrExpired if Until has passed.)
//
// Every other error matches ErrNoQuorum: too few nodes answered. Such a release may be repeated; nodes that come back
// within the keys' life are told in the background in any case, while the Redlock is open.
//
// Errors from the nodes are a *[QuorumError], and match ErrClosed, too, if [Redlock.Close] had
// closed the connections.
//
// Unlock returns when the votes have decided; the release of the other nodes goes on in the
// background. Call Close before the process exits.
func (l *Lock) Unlock(ctx context.Context) error {
	if err := misused(ctx, l.invalid()); err != nil {
		return err
	}
	return l.unlock(l.r.events.Call(ctx))
}

// unlock is Unlock for a call whose events already have a number, such as Do.
func (l *Lock) unlock(ctx context.Context) error {
	l.mu.Lock()
	switch l.rules.Release {
	case lease.BeingReleased:
		return l.sameUnlock()
	case lease.Released:
		defer l.mu.Unlock()
		return l.released.result
	}
	now := time.Now()
	repeated, end := l.beginUnlock(now)
	h := l.hold
	l.mu.Unlock()
	l.r.watch.Remove(l, &l.entry)
	var err error
	func() {
		// Deferred, as the user's tracer may panic: other calls of Unlock, and Close, wait for this release even then.
		defer func() {
			var rd *round
			v := lease.Granted
			if !l.passOn() {
				rd, v = l.release(ctx, now, repeated)
			}
			if h != nil {
				h.leave()
			}
			err = l.endUnlock(rd, v)
		}()
		end()
		ctx = l.r.begin(ctx, OpUnlock, l.claim.resources)
	}()
	l.tell(ctx, EventReleased, OpUnlock, now, err)
	return err
}

// sameUnlock waits for the Unlock that is running, and returns its result. The caller holds l.mu, and sameUnlock
// unlocks it.
func (l *Lock) sameUnlock() error {
	if l.released.done == nil {
		l.released.done = make(chan struct{})
	}
	ready := l.released.done
	l.mu.Unlock()
	<-ready
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.released.result
}

// beginUnlock ends the lock, and reports whether its release was begun before. l.mu is held; end must be called without
// it.
func (l *Lock) beginUnlock(now time.Time) (repeated bool, end func()) {
	l.released.begun.Store(true)
	repeated = l.rules.Unlock(now)
	if !repeated {
		l.released.loss = verdictError(l.rules.Before)
	}
	if l.hold == nil {
		return repeated, func() {}
	}
	return repeated, l.hold.overLocked(cmp.Or(l.rules.Before, lease.ByRelease), now)
}

func (l *Lock) release(ctx context.Context, now time.Time, repeated bool) (*round, lease.Verdict) {
	l.claim.wakeOthers()
	rd := l.r.newRound(ctx, l.claim, l.claim.releaseTelling(now, repeated), lease.Unlocking, 0)
	for i, n := range l.r.nodes {
		// Asked again, a node that has already removed the key would seem to have lost it.
		if repeated && n.Has(&l.claim.Trace, i, node.MarkConfirmed) {
			rd.rules.Skip(i, node.Yes)
		}
	}
	return rd, rd.release(l.o.nodeTimeout)
}

// release asks the nodes, and wakes a waiter of this process if there is nobody else to wake.
func (rd *round) release(timeout time.Duration) lease.Verdict {
	t := &wakeReader{r: rd.r, on: rd.claim.target, next: rd}
	rd.task.Receiver = t
	rd.rules.Start = time.Now()
	rd.ask(timeout)
	rd.exchange()
	<-rd.decided
	v := rd.verdict()
	if v != lease.Granted || t.told.Load() {
		return v
	}
	rd.r.handOvers.Add(1) // Before the line is looked at: a caller about to wait there sees the count.
	if !rd.r.line.IsEmpty() {
		rd.r.line.Do(func(q *waiting.Queue, now time.Time) { q.HandOver(rd.claim.keys, now) })
	}
	return v
}

// endUnlock notes and returns the result of a release. Repeated and simultaneous calls return it as well.
func (l *Lock) endUnlock(rd *round, v lease.Verdict) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released.result = nil
	reason := l.rules.Unlocked(v)
	if reason == lease.Granted {
		l.r.counts.Unlocked.Add(1)
	} else {
		l.released.result = orClosed(rd.fail(verdictError(reason)))
	}
	if l.rules.Before != lease.Undecided && l.released.loss == nil {
		l.released.loss = l.released.result // Do returns it even if another call began the release.
	}
	if l.hold != nil && !l.hold.emitted {
		l.hold.tell(reason, time.Now())
	}
	if l.released.done != nil {
		close(l.released.done)
		l.released.done = nil
	}
	return l.released.result
}
