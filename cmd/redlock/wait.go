package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// takeLock opens a Redlock, which the caller closes, and takes the lock with it. signals has what comes later.
func (t *tool) takeLock(ctx context.Context, f *runFlags, resources []string) (r *redlock.Redlock, lock *redlock.Lock, signals chan os.Signal, err error) {
	w := &wait{resources: resources, permits: f.permits}
	hook := func(_ context.Context, e redlock.Event) {
		w.see(e)
		t.tellSet(e)
	}
	if r, _, err = t.global.open(redlock.WithHook(hook)); err != nil {
		return nil, nil, nil, err
	}
	signals = watchSignals()
	if lock, err = t.await(ctx, f, r, w, signals); err == nil {
		return r, lock, signals, nil
	}
	signal.Stop(signals)
	t.close(ctx, r)
	switch code, _ := classify(err); {
	case errors.Is(err, errWithin):
	case isOwn(err):
		err = because(err, "%v", errWithin)
	case f.quiet && code == exitTaken:
		err = ended(code)
	}
	return nil, nil, nil, err
}

// await takes the lock. A signal ends the wait for it, which is told after a second.
func (t *tool) await(ctx context.Context, f *runFlags, r *redlock.Redlock, w *wait, signals <-chan os.Signal) (*redlock.Lock, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !f.forever && f.waitFor > 0 {
		ctx, cancel = context.WithTimeout(ctx, f.waitFor)
		defer cancel()
	}
	var caught os.Signal
	said := ""
	audible := f.waits() && !f.quiet
	done, watching := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watching)
		long := time.NewTimer(waitsSilently)
		defer long.Stop()
		for {
			select {
			case <-long.C:
				text, known := w.text()
				if audible && text != said {
					t.note(text)
				}
				if said = text; !known {
					long.Reset(waitsSilently)
				}
			case sig := <-signals:
				if endsWait(sig) {
					caught = sig
					cancel()
					return
				}
			case <-done:
				return
			}
		}
	}()
	lock, err := f.take(ctx, r, w.resources)
	close(done)
	<-watching
	switch {
	case caught != nil && lock != nil:
		_ = r.Release(context.WithoutCancel(ctx), lock.Resources(), lock.Token())
		return nil, &endedError{statusOf(caught)}
	case caught != nil:
		return nil, &endedError{statusOf(caught)}
	case err != nil && invalid(err) && ctx.Err() == nil:
		return nil, asUsage(err)
	}
	return lock, err
}

func (f *runFlags) waits() bool { return f.forever || f.waitFor > 0 }

// take takes the lock, or a permit.
func (f *runFlags) take(ctx context.Context, r *redlock.Redlock, resources []string) (*redlock.Lock, error) {
	switch {
	case f.permits > 0:
		return f.takePermit(ctx, r, resources[0])
	case f.waits():
		return r.Lock(ctx, resources, f.ttl, f.options()...)
	default:
		return r.TryLock(ctx, resources, f.ttl, f.options()...)
	}
}

// A wait is that of a redlock run for its lock: what it has seen last, to tell people.
type wait struct {
	resources []string
	permits   int // 0: it is for a lock

	mu   sync.Mutex
	last error // of the last attempt; nil: there was none yet
	at   time.Time
}

// waitsSilently is how long nobody is told that redlock run waits.
const waitsSilently = time.Second

// see is told of events.
func (w *wait) see(e redlock.Event) {
	if e.Kind != redlock.EventWaiting {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.at = e.Err, e.Time
}

// text says for what redlock run waits, and for whom, if that is known.
func (w *wait) text() (text string, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text = "waiting for " + shown(w.resources)
	if w.permits > 0 {
		text = "waiting for a permit of " + shown(w.resources)
	}
	var votes *redlock.QuorumError
	switch {
	case !errors.As(w.last, &votes):
		return text, false
	case !errors.Is(votes, redlock.ErrTaken):
		return "waiting: " + ofVotes(votes, 0), true
	case w.permits > 0:
		return text, true
	}
	if len(votes.Resources) > 1 {
		text += ", one of them"
	} else {
		text += ","
	}
	return text + strings.TrimPrefix(takenBy(votes, time.Since(w.at)), "is"), true
}

// holdersVar has the digests of the locks under which a command runs: that of its redlock run, and of
// those around it. No lock that one of them has can become free while the command waits for it.
const holdersVar = "REDLOCK_HOLDERS"

// errWithin is the error of whoever would wait for what the redlock run has under which it runs.
var errWithin = errors.New("this is part of the command of a redlock run, which holds what it asks for")

// isOwn reports whether a lock is refused because of one under which this process runs.
func isOwn(err error) bool {
	var votes *redlock.QuorumError
	if !errors.As(err, &votes) {
		return false
	}
	holder, nodes, _ := holderOf(votes.Votes)
	return nodes > 0 && slices.Contains(strings.Fields(os.Getenv(holdersVar)), holder.Holder)
}

// mayComeFree is the rule by which a Lock of redlock run tries again.
func mayComeFree(err error) bool {
	return (errors.Is(err, redlock.ErrTaken) || errors.Is(err, redlock.ErrNoQuorum)) && !isOwn(err)
}

// holdersFor is holdersVar for the command.
func holdersFor(lock *redlock.Lock) string {
	return strings.TrimSpace(os.Getenv(holdersVar) + " " + lock.Holder())
}
