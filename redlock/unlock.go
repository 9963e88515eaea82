package redlock

import (
	"context"
	"errors"
	"time"
)

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
