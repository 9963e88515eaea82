package main

import (
	"context"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// The command must be told to end while the lock still has the time of --kill-after and a margin to
// live, so it is not the ttl that extensions have, but what is left of it by then: the leeway. Three of
// them begin in it, a quarter of it apart, and the last one has a quarter for its answer. So two that
// fail can be made up for. KeepAlive alone goes by the ttl: its first one may come too late.
const triesOfLeeway = 4

// margin is how long before the end of its lock a command must be gone.
func (f *runFlags) margin() time.Duration { return min(500*time.Millisecond, f.ttl/10) }

// leeway is the time from an extension to SIGTERM, if none follows. A fiftieth is more than the drift.
func (f *runFlags) leeway() time.Duration { return f.ttl - f.ttl/50 - f.margin() - f.killAfter }

// limitKillAfter limits --kill-after to what leaves each extension of the leeway its node timeout, and
// reports whether it has. A quarter of the ttl is always allowed.
func (f *runFlags) limitKillAfter(nodeTimeout time.Duration) bool {
	most := max(f.killAfter+f.leeway()-triesOfLeeway*nodeTimeout, f.ttl/4)
	if f.killAfter <= most {
		return false
	}
	f.killAfter = most
	return true
}

// An extender extends a lock in time for its command to go on. A nil one does not. It does not wait for
// answers: one that is lost does not hold up the next.
type extender struct {
	lock *redlock.Lock
	ttl  time.Duration
	pace time.Duration
	due  time.Time // of the next extension
}

// newExtender returns the extender of a lock that was just taken.
func (f *runFlags) newExtender(lock *redlock.Lock) *extender {
	pace := f.leeway() / triesOfLeeway
	told := lock.Until().Add(-f.margin() - f.killAfter)
	return &extender{lock, f.ttl, pace, told.Add(-(triesOfLeeway - 1) * pace)}
}

// look extends the lock if it is time. ctx is that of KeepAlive.
func (e *extender) look(ctx context.Context, now time.Time) {
	if e == nil || now.Before(e.due) {
		return
	}
	e.due = now.Add(e.pace)
	go func() { _ = e.lock.Extend(ctx, e.ttl) }() // KeepAlive notices a loss.
}

// next is when it will be, but not later than at.
func (e *extender) next(at time.Time) time.Time {
	if e == nil {
		return at
	}
	return earlier(at, e.due)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
