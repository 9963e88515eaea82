// Package redlockgocron has a fleet of processes that schedule the same jobs with
// [github.com/go-co-op/gocron/v2] run each of them once per tick.
//
// With a [Locker], whichever process comes first runs the job, so that a fleet shares the work:
//
//	locker, err := redlockgocron.NewLocker(r, 30*time.Second, 10*time.Second)
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
// Give r a hook that logs, or nobody hears that there is no quorum:
//
//	r, err := redlock.New(nodes, redlock.WithHook(redlock.SlogHook(slog.Default())))
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
	"github.com/seed6c881748/redlock/redlock/ticks"
)

var (
	_ gocron.Locker  = (*Locker)(nil)
	_ gocron.Elector = (*Elector)(nil)
)

// A Locker is for gocron.WithDistributedLocker and gocron.WithDistributedJobLocker. It locks a job's
// name before each run: processes that do not get the lock leave out this tick. So jobs need names that
// are the same in all processes and differ from each other; see gocron.WithName.
//
// A Locker is safe for concurrent use. Several schedulers can share it.
type Locker struct {
	ticks  *ticks.Locker
	prefix string // of jobs' names
}

// NewLocker returns a Locker that locks the resource "gocron:" + name for each job.
//
// The ttl is how long a job is locked when the process that runs it has died. A run may take longer:
// the lock is extended until the job returns.
//
// minHold is how long the lock stays at least, however soon the job returns. It must be positive, and
// not exceed ttl. With a ttl of twice the min hold or more, the other processes see when a short run is
// over; with less they always wait to the end.
//
// That wait is half of the min hold, and at most 5 s. It is there because whoever comes first may get no
// lock in the end: it stands still for longer than the node timeout, and gives up. If the others had
// left out the tick by then, nobody would run it.
//
// A tick is run once at most if no process asks later than the first one by as much as
// minHold - wait, which is half of the min hold or more: that is by how much clocks may differ, together
// with the time that a process stands still or a limit of gocron keeps the job waiting before it asks. The
// ticks must be further apart than min hold and difference together, or some are left out.
//
// r remains the caller's to close, after the scheduler's Shutdown. If opts are wrong, each Lock fails,
// and says why. Of opts, WithMinHold, WithRetryCount and WithRetryIf do not count.
func NewLocker(r *redlock.Redlock, ttl, minHold time.Duration, opts ...redlock.Option) (*Locker, error) {
	if r == nil {
		return nil, errNoRedlock
	}
	locker, err := ticks.NewLocker(r, ttl, minHold, minHold/2, opts...)
	if err != nil {
		return nil, fmt.Errorf("redlockgocron: %w", err)
	}
	return &Locker{ticks: locker, prefix: "gocron:"}, nil
}

// WithBareNames returns a Locker that locks the name of a job itself, as github.com/go-co-op/gocron-redis-lock does: while a
// fleet goes over from that one, process by process, old and new ones exclude each other. Who is refused leaves out the tick
// at once, as with that one, since the other one's lock is free again as soon as its run is over. So a tick is run twice if
// processes ask later than that; and it is left out if whoever comes first stands still and gets no lock. When all have gone
// over, take the Locker without it.
//
// The names of jobs are then resources among those of the program: a lock of the same name keeps the job from being run.
func (l *Locker) WithBareNames() *Locker {
	bare := *l.ticks
	bare.Leaves = true
	return &Locker{ticks: &bare}
}

// Lock locks the job with this name. While another process has it, or too few nodes answer, Lock waits, and
// gives up when the wait of [NewLocker] is over, or when it sees that the other one's run is. The error matches
// [redlock.ErrTaken] if another process runs the job or has just done so, and [redlock.ErrNoQuorum] if
// too few nodes answer; it has their votes. gocron leaves out the run in both cases, and tells
// gocron.AfterLockError.
//
// gocron unlocks after the run, and ignores whether the lock was held to the end. The events of the
// Redlock say so.
func (l *Locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	lock, err := l.ticks.Lock(ctx, l.prefix+name, 0)
	if err != nil {
		return nil, fmt.Errorf("redlockgocron: job %q: %w", name, err)
	}
	// Not with ctx, which ends with the scheduler or the job's removal: runs go on beyond that.
	lock.KeepAlive(context.WithoutCancel(ctx))
	return lock, nil
}
