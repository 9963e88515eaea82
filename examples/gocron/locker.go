// Package gocronlock has several instances of a program that schedule the same jobs with gocron
// run each of them once per tick.
package gocronlock

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/seed6c881748/redlock/redlock"
)

// Locker is a [gocron.Locker]: whichever scheduler locks a job's name first runs the job, and the
// others leave out this tick. It is safe for concurrent use.
//
// The lock is extended while the job runs. gocron gives the job no context that ends with the
// lock, so a job that must stop when the lock is lost takes it by itself, with
// [redlock.Redlock.Do], or writes with a fence.
type Locker struct {
	// Redlock has the nodes. It is the caller's to close, after the scheduler's Shutdown.
	Redlock *redlock.Redlock

	// TTL is how long a job's lock outlives a process that dies.
	TTL time.Duration

	// Tick is how long a lock is kept at least, at most TTL: more than the schedulers' clocks
	// are apart, or one whose clock is behind runs a short job again; and less than the time
	// from one run to the next.
	Tick time.Duration
}

// Lock locks the job's name, or fails at once: with [redlock.ErrTaken] if another scheduler runs
// the job.
func (l Locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	lock, err := l.Redlock.TryLock(ctx, []string{"gocron:" + name}, l.TTL, redlock.WithMinHold(l.Tick))
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", name, err)
	}
	lock.KeepAlive(ctx)
	return lock, nil
}
