// Package redlockgocron has a fleet of processes that schedule the same jobs with
// [github.com/go-co-op/gocron/v2] run each of them once per tick.
//
// With a [Locker], whichever process comes first runs the job, so that a fleet shares the work:
//
//	locker, err := redlockgocron.NewLocker(r, 30*time.Second, 5*time.Second)
//	…
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// With an [Elector], one process runs all jobs for as long as it lives:
//
//	elector, err := redlockgocron.NewElector(r, "reports", 10*time.Second)
//	…
//	defer elector.Close(ctx)
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
// Take one of them: gocron asks no Locker where there is an Elector. The Locker is the safer one, as
// it covers the whole run of a job. An Elector is asked only before a run begins.
//
// # When a lock is lost
//
// A redlock is a lease: it is extended for as long as it is needed, and is lost if a quorum of the nodes
// cannot be reached for longer than its ttl. Neither interface of gocron can tell a job that runs:
// the context that gocron gives it ends with the scheduler, not with the lock. So the job goes on,
// and another process may run it at the next tick. A job for which that is not good enough calls
// [redlock.Redlock.Do] itself, whose context ends with the lock, or writes with a fence. The events
// of the Redlock tell of every loss; see [redlock.WithHook].
package redlockgocron

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/seed6c881748/redlock/redlock"
)

var (
	_ gocron.Locker  = (*Locker)(nil)
	_ gocron.Elector = (*Elector)(nil)
)

// A Locker is for gocron.WithDistributedLocker and gocron.WithDistributedJobLocker. It locks a job's
// name before each run: processes that are refused leave out this tick. So jobs need names that are
// the same in all processes and differ from each other; see gocron.WithName.
//
// A Locker is safe for concurrent use. Several schedulers can share it.
type Locker struct {
	r    *redlock.Redlock
	ttl  time.Duration
	opts []redlock.Option
}

// NewLocker returns a Locker that locks the resource "gocron:" + name for each job.
//
// The ttl is how long a job is locked when the process that runs it has died. A run may take longer:
// the lock is extended until the job returns.
//
// minHold is how long the lock stays at least, however soon the job returns. It must be longer than
// the clocks of the processes are apart, or one whose clock is behind runs the job again; and shorter
// than the time from one tick to the next, or the next one is left out. It must be positive, and not
// exceed ttl.
//
// r remains the caller's to close, after the scheduler's Shutdown. If opts are wrong, each Lock fails,
// and says why.
func NewLocker(r *redlock.Redlock, ttl, minHold time.Duration, opts ...redlock.Option) (*Locker, error) {
	if r == nil {
		return nil, errNoRedlock
	}
	if minHold <= 0 || minHold > ttl {
		return nil, fmt.Errorf("redlockgocron: the min hold must be positive and not exceed the ttl of %v: %v", ttl, minHold)
	}
	// The caller's first: the min hold is none of theirs.
	return &Locker{r: r, ttl: ttl, opts: append(opts[:len(opts):len(opts)], redlock.WithMinHold(minHold))}, nil
}

// Lock locks the job with this name, or fails at once. The error matches [redlock.ErrTaken] if another
// process runs the job or has just done so, and [redlock.ErrNoQuorum] if too few nodes answer. gocron
// leaves out the run in both cases, and tells gocron.AfterLockError.
//
// gocron unlocks after the run, and ignores whether the lock was held to the end. The events of the
// Redlock say so.
func (l *Locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	lock, err := l.r.TryLock(ctx, []string{"gocron:" + name}, l.ttl, l.opts...)
	if err != nil {
		return nil, fmt.Errorf("redlockgocron: job %q: %w", name, err)
	}
	// Not with ctx, which ends with the scheduler or the job's removal: runs go on beyond that.
	lock.KeepAlive(context.WithoutCancel(ctx))
	return lock, nil
}
