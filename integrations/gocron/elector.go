package redlockgocron

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// ErrNotLeader means that this process does not lead, so that gocron leaves the run to the one that does.
var ErrNotLeader = errors.New("redlockgocron: not the leader")

var errNoRedlock = errors.New("redlockgocron: no Redlock")

// An Elector is for gocron.WithDistributedElector. From its creation until Close it stands for leader
// among all electors with the same name and nodes, in the background. Who leads does so until its
// Close, its process's end or the loss of its lock; then another one follows.
//
// An Elector is safe for concurrent use. Several schedulers of a process can share it.
type Elector struct {
	r      *redlock.Redlock
	name   string
	lock   atomic.Pointer[redlock.Lock] // nil while somebody else leads
	cancel context.CancelFunc
	closed atomic.Bool

	done chan struct{} // closed when the campaign has ended, for the reason in err
	err  error
}

// NewElector returns an Elector that locks the resource name, and begins to stand for leader. The ttl is
// how long nobody leads after a leader has died without a word; a leader that is closed is followed at once.
//
// It does no I/O: IsLeader says no until the nodes have answered. Without an answer it asks again for
// as long as it takes, unless opts have another [redlock.WithRetryCount]. It writes no log: give r a hook,
// such as [redlock.SlogHook]. If opts or the ttl are wrong, IsLeader says why. Close the Elector before r.
//
// With [redlock.WithStopTime] in opts, a process without a quorum ceases to lead that long before its
// lock can end. So a run that takes no longer has ended before the next leader's first one begins, even
// in an outage, but for the exceptions that WithStopTime names. Close does not wait.
func NewElector(r *redlock.Redlock, name string, ttl time.Duration, opts ...redlock.Option) (*Elector, error) {
	if r == nil {
		return nil, errNoRedlock
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &Elector{r: r, name: name, cancel: cancel, done: make(chan struct{})}
	opts = append([]redlock.Option{redlock.WithRetryCount(-1)}, opts...)
	go func() {
		defer close(e.done)
		e.err = e.campaign(ctx, func() (*redlock.Lock, error) { return r.Lock(ctx, []string{name}, ttl, opts...) })
	}()
	return e, nil
}

// campaign leads again and again. It returns nil when ctx ends while somebody else leads, and
// otherwise the error of the last lock or release.
func (e *Elector) campaign(ctx context.Context, lock func() (*redlock.Lock, error)) error {
	for {
		l, err := lock()
		if err != nil && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		kept := l.KeepAlive(ctx)
		e.lock.Store(l)
		<-kept.Done()
		e.lock.Store(nil)
		if cause := context.Cause(kept); errors.Is(cause, redlock.ErrStopTime) || errors.Is(cause, redlock.ErrMaxHold) {
			sleep(ctx, time.Until(l.Until())) // What is left of the lock is for the runs that have begun.
		}
		// After a loss there is no error to report: the events of the Redlock do.
		if err = l.Unlock(ctx); ctx.Err() != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// IsLeader returns nil if this process leads now, and otherwise an error that matches [ErrNotLeader].
// If the Elector has given up, because its arguments are wrong, its retries are used up or the Redlock
// is closed, the error matches that reason, too. While it waits, the error matches what its last
// attempt has seen: [redlock.ErrTaken] if somebody else leads, and [redlock.ErrNoQuorum] if too few nodes
// answer, so that perhaps nobody does. The events of the Redlock have the nodes' votes.
//
// It returns nil only while the lock is held by this process's clocks, and never for two processes at
// one time. It asks no node, and ctx does not matter. What begins after it goes on even if the
// lock is lost: gocron does not ask again during a run.
func (e *Elector) IsLeader(context.Context) error {
	if e.closed.Load() {
		return fmt.Errorf("%w: closed", ErrNotLeader)
	}
	if lock := e.lock.Load(); lock != nil && lock.Err() == nil {
		return nil
	}
	select {
	case <-e.done:
		return fmt.Errorf("%w: %w", ErrNotLeader, e.err)
	default:
	}
	for _, c := range e.r.WaitingCalls() {
		if c.Err != nil && slices.Equal(c.Resources, []string{e.name}) {
			return fmt.Errorf("%w: %w", ErrNotLeader, c.Err)
		}
	}
	return ErrNotLeader
}

// Format prints, whatever the verb, whether this process leads.
func (e *Elector) Format(s fmt.State, _ rune) {
	text := "not the leader"
	if lock := e.lock.Load(); lock != nil && lock.Err() == nil && !e.closed.Load() {
		text = "the leader"
	}
	_, _ = fmt.Fprintf(s, "Elector of %q (%s)", e.name, text)
}

// Close ends the candidature. From the call on, IsLeader says no; if this process has led, its lock is
// released, and another one leads a few round trips later. Close does not wait for jobs that run: call
// it after the scheduler's Shutdown, or they may run beside those of the next leader.
//
// It returns when the lock is released, or ctx ends. The error is that of ctx, of
// [redlock.Lock.Unlock], or what had ended the candidature before. Close may be called again, with
// the same result.
func (e *Elector) Close(ctx context.Context) error {
	e.closed.Store(true)
	e.cancel()
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
		return fmt.Errorf("redlockgocron: the release goes on: %w", context.Cause(ctx))
	}
}
