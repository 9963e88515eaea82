package redlock

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/internal/waiting"
)

// A HeldLock describes a lock that this Redlock holds, without its token.
type HeldLock struct {
	Resources []string  // sorted
	Since     time.Time // the start of the attempt that got the lock
	Extended  time.Time // the start of the last extension that succeeded; Since before the first
	Until     time.Time // see [Lock.Until]
	Fence     int64     // 0 without WithFencing
	Owner     string    // the label of WithOwner; empty without
	Holder    string    // the digest of the token, as in votes and events
	Kept      bool      // KeepAlive or Do extend it
}

// HeldLocks returns the locks that were acquired and are neither released, lost nor expired, the
// oldest first: those that Stats counts as Held. It does no I/O, and may also be called after Close.
// What it returns belongs to the caller.
func (r *Redlock) HeldLocks() []HeldLock {
	must(r.invalid())
	leases := r.held.All()
	locks := make([]HeldLock, 0, len(leases))
	for _, l := range leases {
		if h, held := l.(*Lock).look(); held {
			locks = append(locks, h)
		}
	}
	slices.SortFunc(locks, func(a, b HeldLock) int {
		return cmp.Or(a.Since.Compare(b.Since), slices.Compare(a.Resources, b.Resources), cmp.Compare(a.Holder, b.Holder))
	})
	return locks
}

// look describes the lock, if it is held.
func (l *Lock) look() (h HeldLock, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.errLocked(time.Now()) != nil {
		return HeldLock{}, false
	}
	return HeldLock{
		Resources: slices.Clone(l.claim.resources), Since: l.start, Extended: l.extended, Until: l.until.Mono,
		Fence: l.Fence(), Owner: l.o.owner, Holder: tokens.Digest(l.claim.token), Kept: l.hold != nil && !l.hold.over,
	}, true
}

// A WaitingCall describes a call of Lock or Do that waits for a lock.
type WaitingCall struct {
	Resources []string  // sorted
	Owner     string    // the label of WithOwner that the lock will have; empty without
	Since     time.Time // when the call began to wait
	Attempts  int       // how many it has made
	Position  int       // its place in the line of this process, as in EventWaiting; 0 for one that polls
	Err       error     // what its last attempt saw: ErrTaken, ErrNoQuorum, or nil before its first

	Holder      string // with ErrTaken, the digest of a holder's token
	HolderOwner string // and the label of WithOwner of that holder
}

// WaitingCalls returns the calls of Lock and Do that wait, the longest wait first. It does no I/O, and
// may also be called after Close. What it returns belongs to the caller.
func (r *Redlock) WaitingCalls() []WaitingCall {
	must(r.invalid())
	positions := r.queue.Positions()
	calls := r.waits.all(positions)
	slices.SortFunc(calls, func(a, b WaitingCall) int {
		return cmp.Or(a.Since.Compare(b.Since), slices.Compare(a.Resources, b.Resources), cmp.Compare(a.Position, b.Position))
	})
	return calls
}

// waitingCalls are the calls that wait. The zero value is empty.
type waitingCalls struct {
	mu    sync.Mutex // calls nothing
	calls map[*waitingCall]struct{}
}

// A waitingCall is one of them. Only waitingCalls uses what is below the queued.
type waitingCall struct {
	a      *acquisition
	queued *waiting.Waiter // nil: it polls

	began         time.Time
	attempts      int
	reason        error
	holder, owner string // of whom it waits for
}

// note notes that c waits, after so many attempts of which the last one failed with err. It keeps
// none of err, which may be changed by whom it is returned to.
func (w *waitingCalls) note(c *waitingCall, attempts int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = make(map[*waitingCall]struct{})
	}
	if c.began.IsZero() {
		c.began = time.Now()
		w.calls[c] = struct{}{}
	}
	c.attempts, c.reason, c.holder, c.owner = attempts, nil, "", ""
	switch {
	case errors.Is(err, ErrTaken):
		c.reason = ErrTaken
	case errors.Is(err, ErrNoQuorum):
		c.reason = ErrNoQuorum
	}
	if no := refusal(err); no != nil {
		c.holder = holderOf(no)
		for _, v := range no.Votes {
			if v.Holder == c.holder {
				c.owner = cmp.Or(c.owner, v.Owner)
			}
		}
	}
}

// remove notes that c does not wait any more, if it ever did.
func (w *waitingCalls) remove(c *waitingCall) {
	if c.began.IsZero() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.calls, c)
}

func (w *waitingCalls) all(positions map[*waiting.Waiter]int) []WaitingCall {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := make([]WaitingCall, 0, len(w.calls))
	for c := range w.calls {
		calls = append(calls, WaitingCall{
			Resources: slices.Clone(c.a.resources), Owner: c.a.o.owner, Since: c.began, Attempts: c.attempts,
			Position: positions[c.queued], Err: c.reason, Holder: c.holder, HolderOwner: c.owner,
		})
	}
	return calls
}
