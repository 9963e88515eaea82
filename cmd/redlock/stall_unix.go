//go:build unix

package main

import (
	"fmt"
	"sync"
	"time"
)

// An ownTime is a clock that stands still while this process does not run: it was stopped, the machine
// slept, or others had its processors. It is asked again and again, and a longer time without a question
// was none of its own. So it tells a process that could not extend its lock from nodes that have not
// answered. What a round says does not, as its timer was late, too.
type ownTime struct {
	every time.Duration        // it is asked at least as often
	clock func() time.Duration // goes on meanwhile
	done  chan struct{}

	mu  sync.Mutex
	ran moment
}

// A moment is one instant by the clock of all processes, and by a process's own time.
type moment struct{ clock, own time.Duration }

// startOwnTime starts the clock. stop it.
func startOwnTime(every time.Duration, clock func() time.Duration) *ownTime {
	o := &ownTime{every: every, clock: clock, done: make(chan struct{}), ran: moment{clock: clock()}}
	ticker := time.NewTicker(every)
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				o.now()
			case <-o.done:
				return
			}
		}
	}()
	return o
}

func (o *ownTime) stop() { close(o.done) }

// now asks it. A timer may be late by as much as it takes on a busy machine.
func (o *ownTime) now() moment {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := o.clock()
	o.ran.own += min(max(at-o.ran.clock, 0), 2*o.every)
	o.ran.clock = at
	return o.ran
}

// stalled is for how long the process has not run since.
func (m moment) stalled(now moment) time.Duration { return now.clock - m.clock - (now.own - m.own) }

// A lapse finds out why a lock could not be extended: as the nodes did not answer, or as this process did
// not run.
type lapse struct {
	time *ownTime
	pace time.Duration // of the extensions that can be made up for

	until    time.Time // the lock's, at the last look
	looked   moment    // the last look
	extended moment    // the last one before Until moved: no later than the extension
}

// startLapse begins when the lock was taken.
func startLapse(o *ownTime, pace time.Duration, until time.Time) *lapse {
	now := o.now()
	return &lapse{time: o, pace: pace, until: until, looked: now, extended: now}
}

// look sees an extension by the end that it has moved.
func (l *lapse) look(until time.Time) {
	if l == nil {
		return
	}
	if !until.Equal(l.until) {
		l.until, l.extended = until, l.looked
	}
	l.looked = l.time.now()
}

// why is nil unless it was this process. One that has run until the last extension was due that could still
// be answered, see triesOfLeeway, has asked the nodes, and they have not answered.
func (l *lapse) why() error {
	if l == nil {
		return nil
	}
	now := l.time.now()
	if now.own-l.extended.own >= (triesOfLeeway-1)*l.pace {
		return nil
	}
	return fmt.Errorf("redlock did not run for %s, as it was stopped, or the machine slept or was overloaded: it could not extend the lock",
		shortly(l.extended.stalled(now)))
}
