// Package redlockcron has a fleet of processes that schedule the same jobs with [github.com/robfig/cron/v3] run
// each of them once per tick.
//
//	locker, err := redlockcron.NewLocker(r, logger, 30*time.Second, 10*time.Second)
//	…
//	c := cron.New(cron.WithLogger(logger), cron.WithChain(cron.SkipIfStillRunning(logger), cron.Recover(logger)))
//	_, err = c.AddJob("0 * * * *", locker.Func("report", sendReport))
//	_, err = c.AddJob("@daily", locker.Wrapper("cleanup")(cleanup))
//
// Whichever process comes first runs the job, so that a fleet shares the work. Give r a hook that logs, or
// nobody hears of lost nodes:
//
//	r, err := redlock.New(nodes, redlock.WithHook(redlock.SlogHook(slog.Default())))
//
// # The order in a chain
//
// What stands before the Locker runs in every process. The wrappers of [cron.WithChain] do. Put
// [cron.SkipIfStillRunning] there: behind the Locker, a run that it skips has the lock, and nobody else runs the job.
// Put [cron.Recover] between the two, as SkipIfStillRunning never again runs a job that has panicked through
// it. A panic releases the lock, and goes on to Recover. Leave out [cron.DelayIfStillRunning]: a run that it
// delays asks late, and may repeat what another process has run.
//
// # How it ends
//
// [cron.Cron.Stop] ends no run and no wait for a lock. Wait for its context, which takes the locker's wait at least
// if a job has just begun to wait, and close the Redlock then. To end sooner, close the Redlock first: that ends
// the waits, and the contexts of [Locker.Func].
package redlockcron

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/ticks"
)

// A Locker makes jobs that run once per tick over all processes. It is safe for concurrent use. Several Crons can
// share it.
type Locker struct {
	ticks  *ticks.Locker
	logger cron.Logger
}

// NewLocker returns a Locker that locks the resource "cron:" + name for each run of a job.
//
// The ttl is how long a job is locked when the process that runs it has died. A run may take longer:
// the lock is extended until the job returns.
//
// minHold is how long the lock stays at least, however soon the job returns. It must be positive, and
// not exceed ttl. With a ttl of twice the min hold or more, the other processes see when a short run is
// over; with less they always wait to the end.
//
// That wait is two thirds of the min hold, and at most 5 s. It is there because whoever comes first may get no
// lock in the end: it stands still for longer than the node timeout, and gives up. If the others had
// left out the tick by then, nobody would run it. So each tick is run if nobody stands still for longer than the wait.
//
// A tick is run once at most if clocks differ by less than minHold - wait, which is a third of the min hold or
// more. That includes the time for which a process stands still before it asks, but for fractions of a second: they
// are taken from the wait, of which a quarter is left. A [cron.Schedule] of your own should tick at whole seconds,
// as cron's do.
//
// Ticks must be further apart than the min hold and such a delay together, less the wait. For ticks a second apart that
// is a min hold a bit below a second: of 0.9 s, it bears clocks that differ by 0.3 s, and standstills of 0.6 s.
//
// The logger is told of ticks that are left out (Info), with who has the lock and for how long, and of all
// that goes wrong (Error). Give it the Cron's own. [cron.DefaultLogger] prints errors only.
//
// NewLocker asks no node. r remains the caller's to close, after the Cron has stopped. Of opts, WithMinHold,
// WithRetryCount and WithRetryIf do not count. [redlock.WithOwner] is what the others' loggers call this process.
func NewLocker(r *redlock.Redlock, logger cron.Logger, ttl, minHold time.Duration, opts ...redlock.Option) (*Locker, error) {
	if r == nil {
		return nil, errors.New("redlockcron: no Redlock")
	}
	if logger == nil {
		return nil, errors.New("redlockcron: no logger")
	}
	locker, err := ticks.NewLocker(r, ttl, minHold, minHold-minHold/3, opts...)
	if err != nil {
		return nil, fmt.Errorf("redlockcron: %w", err)
	}
	// A call whose context has ended checks its arguments, and sends nothing.
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := locker.Lock(ended, "cron:", 0); !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("redlockcron: %w", err)
	}
	return &Locker{locker, logger}, nil
}

// Wrapper returns a wrapper for one job, whose name must be the same in all processes and differ from those of
// other jobs. Do not give it to [cron.WithChain], which would wrap all jobs under one name, so that only one of them
// runs at a tick; the logger hears of a wrapper's second job (Error).
//
// The job cannot hear that its lock has ended, and goes on; the next tick may be run elsewhere meanwhile. The logger is
// told of it in the end. For a job that must stop then take [Locker.Func].
func (l *Locker) Wrapper(name string) cron.JobWrapper {
	var used atomic.Bool
	return func(wrapped cron.Job) cron.Job {
		if used.Swap(true) {
			l.logger.Error(errors.New("redlockcron: the wrapper has another job already: only one of them runs at a tick"), "job not alone", "job", name)
		}
		return l.Func(name, func(context.Context) error {
			wrapped.Run()
			return nil
		})
	}
}

// Func returns a job that runs f with the lock. The name must be the same in all processes and differ from those of other
// jobs.
//
// f's context ends when the lock does, and [context.Cause] says why: [redlock.Lock.KeepAlive] lists the causes. f must
// then stop what needs the lock. Within f, [redlock.FromContext] has the lock, for its fence. The lock is released when
// f returns or panics; the min hold is kept in both cases.
//
// The logger is told of f's error, and of a lock that was lost before its release.
func (l *Locker) Func(name string, f func(ctx context.Context) error) cron.Job {
	return cron.FuncJob(func() {
		if name == "" || f == nil {
			l.logger.Error(errors.New("redlockcron: a job needs a name and a function"), "job not run", "job", name)
			return
		}
		l.run(name, f)
	})
}

func (l *Locker) run(name string, f func(ctx context.Context) error) {
	ctx := context.Background() // A Cron has none. Close of the Redlock ends what goes on.
	// All schedules of cron tick at whole seconds. What is past since is a standstill of this process.
	now := time.Now()
	lock, err := l.ticks.Lock(ctx, "cron:"+name, now.Sub(now.Truncate(time.Second)))
	if err != nil {
		l.leftOut(name, err)
		return
	}
	err = lock.Do(ctx, func(ctx context.Context, _ *redlock.Lock) error { return f(ctx) })
	switch {
	case err == nil:
	case errors.Is(err, redlock.ErrNotAcquired):
		l.logger.Error(err, "job not run", "job", name)
	case errors.Is(err, redlock.ErrLost):
		l.logger.Error(err, "lock lost before the job was over", "job", name)
	default:
		l.logger.Error(err, "job failed", "job", name)
	}
}

// leftOut tells why there is no lock: that another process has it is as it should be.
func (l *Locker) leftOut(name string, err error) {
	var refused *redlock.QuorumError
	if !errors.As(err, &refused) || !errors.Is(err, redlock.ErrTaken) || errors.Is(err, redlock.ErrClosed) {
		l.logger.Error(err, "job not run", "job", name)
		return
	}
	who, left := holder(refused.Votes)
	l.logger.Info("skip", "job", name, "holder", who, "for", left)
}

// holder says who has the lock on the most nodes, by the label or else by the digest of the token, and for how long.
func holder(votes []redlock.Vote) (who string, left time.Duration) {
	nodes, most := map[string]int{}, 0
	for _, v := range votes {
		if !errors.Is(v.Err, redlock.ErrTaken) || v.Holder == "" { // Reserved for another waiter.
			continue
		}
		if nodes[v.Holder]++; nodes[v.Holder] > most {
			most, who, left = nodes[v.Holder], cmp.Or(v.Owner, v.Holder), v.HolderTTL
		}
	}
	return cmp.Or(who, "another waiter"), left
}
