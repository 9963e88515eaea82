// Package ticks has one of several processes run a job at each tick of a schedule: what is the same for all
// schedulers.
package ticks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// MaxWait is the longest wait of a Locker: how late a run may begin, and how long a process may stand
// still that has come first, without the tick being left out.
const MaxWait = 5 * time.Second

// A Locker locks a job for one tick. It is safe for concurrent use.
type Locker struct {
	Redlock            *redlock.Redlock
	TTL, MinHold, Wait time.Duration
	options            []redlock.Option
}

// NewLocker returns a Locker whose locks live for ttl, and for minHold at least. It waits for half of the min
// hold, and at most for MaxWait: whoever has come first may get no lock in the end, and nobody would run the
// job if the others had left out the tick by then. It must wait for less than the min hold, or it would find
// the lock of its own tick free again.
//
// Of opts, WithMinHold, WithRetryCount and WithRetryIf do not count.
func NewLocker(r *redlock.Redlock, ttl, minHold time.Duration, opts []redlock.Option) (*Locker, error) {
	if minHold <= 0 || minHold > ttl {
		return nil, fmt.Errorf("the min hold must be positive and not exceed the ttl of %v: %v", ttl, minHold)
	}
	// The caller's first: the min hold and the wait are none of theirs.
	opts = append(opts[:len(opts):len(opts)], redlock.WithMinHold(minHold), redlock.WithRetryCount(-1))
	return &Locker{r, ttl, minHold, min(minHold/2, MaxWait), opts}, nil
}

// Lock locks the resource of a job. It gives up when the wait is over, or when it sees that another process has
// run the job. The error is a [redlock.QuorumError] then. A lock that comes later matches
// [context.DeadlineExceeded], and was released.
func (l *Locker) Lock(ctx context.Context, resource string) (*redlock.Lock, error) {
	end := time.Now().Add(l.Wait)
	waiting, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	retry := redlock.WithRetryIf(func(err error) bool { return l.mayGet(err, time.Until(end)) })
	lock, err := l.Redlock.Lock(waiting, []string{resource}, l.TTL, append(l.options[:len(l.options):len(l.options)], retry)...)
	if refused := (*redlock.QuorumError)(nil); errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && errors.As(err, &refused) {
		err = refused // That the wait is over is no news.
	}
	if err != nil {
		return nil, err
	}
	// What nodes have granted is the caller's, even if its process has stood still meanwhile. Then another
	// one may have run the job, and its min hold be over.
	if !time.Now().Before(end) {
		_ = lock.Unlock(ctx)
		return nil, fmt.Errorf("the lock came after the wait of %v: %w", l.Wait, context.DeadlineExceeded)
	}
	return lock, nil
}

// mayGet reports whether a refused Lock may get the lock within what is left of its wait. While the keys live as
// long as those of an attempt of this tick, that attempt may fail yet. If they are shorter-lived, they are
// what a run has left for the rest of the min hold, or those of an earlier tick's run.
func (l *Locker) mayGet(err error, wait time.Duration) bool {
	var refused *redlock.QuorumError
	if !errors.Is(err, redlock.ErrTaken) || !errors.As(err, &refused) {
		return errors.Is(err, redlock.ErrNoQuorum)
	}
	var left time.Duration
	for _, v := range refused.Votes {
		left = max(left, v.HolderTTL)
	}
	return left <= wait || left >= l.TTL-l.MinHold
}
