package ticks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/redlock"
)

// MaxWait is the longest wait of a Locker: how late a run may begin, and how long a process may stand
// still that has come first, without the tick being left out.
const MaxWait = 5 * time.Second

// A Locker locks jobs, each for one tick. Only [NewLocker] makes one, which may be copied. It is safe for concurrent use.
type Locker struct {
	// Leaves makes a refused Locker leave the tick out at once: a holder that keeps no min hold has its lock free again
	// as soon as its run is over.
	Leaves bool

	r                  *redlock.Redlock
	ttl, minHold, wait time.Duration
	options            []redlock.Option
}

// NewLocker returns a Locker whose locks live for ttl, and for minHold at least. It waits for a lock, at most for
// [MaxWait]: the process that came first may get no lock in the end, and if the others had left out the tick by then,
// nobody would run the job. The wait must be shorter than the min hold by as much as clocks may differ, or a process
// would find the lock of its own tick free again.
//
// Of opts, WithMinHold, WithTurn, WithRetryCount and WithRetryIf do not count. If another one is wrong, each Lock says so.
func NewLocker(r *redlock.Redlock, ttl, minHold, wait time.Duration, opts ...redlock.Option) (*Locker, error) {
	if minHold <= 0 || minHold > ttl {
		return nil, fmt.Errorf("the min hold must be positive and not exceed the ttl of %v: %v", ttl, minHold)
	}
	// The caller's options come first, so that these override them: the min hold, which takes no turns, and the wait.
	opts = append(opts[:len(opts):len(opts)], redlock.WithMinHold(minHold), redlock.WithTurn(0), redlock.WithRetryCount(-1))
	return &Locker{r: r, ttl: ttl, minHold: minHold, wait: min(wait, MaxWait), options: opts}, nil
}

// Lock locks the resource of a job. It gives up when the wait is over, or when it sees that another process has
// run the job. The error is a [redlock.QuorumError] then. A lock that comes later matches
// [context.DeadlineExceeded], and was released.
//
// The wait begins at the tick, which is past by as much as late says. A part of it is left in any case: if all are
// late, somebody is to run the job all the same.
func (l *Locker) Lock(ctx context.Context, resource string, late time.Duration) (*redlock.Lock, error) {
	wait := max(l.wait-late, l.wait/4)
	end := time.Now().Add(wait)
	waiting, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	retry := redlock.WithRetryIf(func(err error) bool { return l.mayGet(err, time.Until(end)) })
	lock, err := l.r.Lock(waiting, []string{resource}, l.ttl, append(l.options[:len(l.options):len(l.options)], retry)...)
	if refused := (*redlock.QuorumError)(nil); errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && errors.As(err, &refused) {
		err = refused // The refusal says more than the end of the wait.
	}
	if err != nil {
		return nil, err
	}
	// A lock that nodes have granted is the caller's, even if its process has stood still meanwhile. But then another
	// process may have run the job, and its min hold may be over.
	if !time.Now().Before(end) {
		settings.Unused(lock) // Otherwise the min hold would block the next tick.
		_ = lock.Unlock(ctx)
		return nil, fmt.Errorf("the lock came after the wait of %v: %w", wait, context.DeadlineExceeded)
	}
	return lock, nil
}

// mayGet reports whether a refused Lock may still get the lock within the rest of its wait. While the keys live as long
// as those of an attempt of this tick, that attempt may still fail. Shorter-lived keys are what a run has left for the
// rest of the min hold, or belong to an earlier tick's run.
func (l *Locker) mayGet(err error, wait time.Duration) bool {
	var refused *redlock.QuorumError
	if !errors.Is(err, redlock.ErrTaken) || !errors.As(err, &refused) {
		return errors.Is(err, redlock.ErrNoQuorum)
	}
	if l.Leaves {
		return false
	}
	var left time.Duration
	for _, v := range refused.Votes {
		left = max(left, v.HolderTTL)
	}
	return left <= wait || left >= l.ttl-l.minHold
}
