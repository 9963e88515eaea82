package redlock

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/node"
)

// A releaseState is how far the release of a lock has come. It is guarded by the lock's mu.
type releaseState struct {
	stage       releaseStage
	begun       atomic.Bool   // stage has left unreleased; for those who cannot take the lock's mu
	endedBefore error         // how the lock had ended before: ErrLost, ErrExpired, a loss that the release has shown, or nil
	done        chan struct{} // closed when the Unlock that is running ends; nil while nobody waits for that
	result      error         // of the last Unlock that ended
}

type releaseStage uint8

const (
	unreleased  releaseStage = iota
	releasing                // an Unlock is running
	unconfirmed              // one has ended without an answer from a quorum: it may be repeated
	released                 // one has come to a final result
)

// Unlock releases the lock. From the call on, the lock is no longer held, whatever the result. Unlock ignores the
// cancellation of ctx, and takes at most the node timeout. The hook gets the values of ctx.
//
// It stops KeepAlive first: an extension that is on its way can neither revive the lock nor
// delay the release. With [WithMinHold], keys whose time is not over yet are not deleted, but
// set to expire at that time; everything else is the same.
//
// nil means that the lock was held when the call began, by this holder's clocks, and that a quorum of nodes has
// confirmed that its keys are gone. After a success, further calls return nil without I/O.
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

// unlock is Unlock for a call that has a name already, as that of Do.
func (l *Lock) unlock(ctx context.Context) error {
	l.mu.Lock()
	switch l.released.stage {
	case releasing:
		return l.sameUnlock()
	case released:
		defer l.mu.Unlock()
		return l.released.result
	}
	now := time.Now()
	repeated := l.released.stage != unreleased
	late, end := l.beginUnlock(now, repeated)
	h := l.hold
	l.mu.Unlock()
	l.r.watch.Remove(l, &l.entry)
	var err error
	func() {
		// Deferred, as the tracer is the user's: if it panics, whoever else unlocks, and Close, wait
		// for this release all the same.
		defer func() {
			rd, v := l.release(ctx, now, repeated)
			if h != nil {
				h.leave()
			}
			err = l.endUnlock(rd, v, late, repeated)
		}()
		end()
		ctx = l.r.begin(ctx, OpUnlock, l.claim.resources)
	}()
	l.tell(ctx, EventReleased, OpUnlock, now, err)
	return err
}

// sameUnlock waits for the Unlock that is running: its result is this call's, too.
// l.mu is held, and is not any more after it.
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

// beginUnlock ends the lock, and says whether Until has passed. end is to be called without l.mu, which is held here.
func (l *Lock) beginUnlock(now time.Time, repeated bool) (late bool, end func()) {
	l.released.stage = releasing
	l.released.begun.Store(true)
	prior := l.errLocked(now)
	late = errors.Is(prior, ErrExpired) || l.until.Passed(l.r.clock.At(now))
	if !repeated {
		l.released.endedBefore = prior
	}
	l.end(ErrLost, now)
	if l.hold == nil {
		return late, func() {}
	}
	return late, l.hold.endLocked(l.released.endedBefore, now)
}

func (l *Lock) release(ctx context.Context, now time.Time, repeated bool) (*round, lease.Verdict) {
	l.claim.tellOthers()
	rd := l.r.newRound(ctx, l.claim, l.claim.releaseTelling(now), lease.Unlocking, 0)
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
	rd.ask(time.Now(), timeout)
	<-rd.decided
	v := rd.verdict()
	if v == lease.Granted && !t.told.Load() {
		rd.r.queue.HandOver(rd.claim.keys)
	}
	return v
}

// endUnlock notes the result of a release, for repeated and simultaneous calls, too.
func (l *Lock) endUnlock(rd *round, v lease.Verdict, late, repeated bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released.stage, l.released.result = released, nil
	if v == lease.NoQuorum {
		l.released.stage = unconfirmed
	}
	reason := l.unlockReason(v, late)
	if reason != nil {
		l.released.result = orClosed(rd.fail(reason))
		if !repeated && v == lease.Lost && l.released.endedBefore == nil {
			l.released.endedBefore = l.released.result // A Do that did not begin the release hears of it, too.
		}
	} else {
		l.r.counters.Unlocked.Add(1)
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

// unlockReason is why an Unlock fails on which the nodes' verdict is v, nil if it does not. What the holder's own
// clocks have said counts before what the nodes say: keys that outlive Until for the drift allowance, and nodes that
// do not answer, must not make a lock that had ended look like one that was held to the end. l.mu is held.
func (l *Lock) unlockReason(v lease.Verdict, late bool) error {
	switch {
	case l.released.endedBefore != nil:
		return l.released.endedBefore
	case v == lease.Granted:
		return nil
	case v == lease.Lost && late:
		return ErrExpired
	case v == lease.Lost:
		return ErrLost
	default:
		return ErrNoQuorum
	}
}
