//go:build unix

package main

import (
	"fmt"
	"time"
)

// A lapse finds out why a lock could not be extended: as the nodes did not answer, or as this process did not run: it
// was stopped, the machine slept, or others had its processors. It is asked again and again, and a longer time without
// a question was none of its own. What a round says does not tell the two apart, as its timer was late, too.
type lapse struct {
	every time.Duration // it is asked at least as often
	pace  time.Duration // of the extensions that can be made up for

	until    time.Time // the lock's, at the last look
	looked   moment    // the last look
	extended moment    // the last one before Until moved: no later than the extension
}

// A moment is one instant by a clock that goes on whatever happens, and by the process's own time.
type moment struct{ clock, own time.Duration }

// look sees an extension by the end that it has moved. A timer may be late by as much as it takes on a busy machine.
func (l *lapse) look(until time.Time, clock time.Duration) {
	if !until.Equal(l.until) {
		l.until, l.extended = until, l.looked
	}
	l.looked.own += min(max(clock-l.looked.clock, 0), 2*l.every)
	l.looked.clock = clock
}

// why is nil unless it was this process. One that has run until the last extension was due that could still
// be answered, see triesOfLeeway, has asked the nodes, and they have not answered.
func (l *lapse) why() error {
	own := l.looked.own - l.extended.own
	if own >= (triesOfLeeway-1)*l.pace {
		return nil
	}
	return fmt.Errorf("redlock did not run for %s, as it was stopped, or the machine slept or was overloaded: it could not extend the lock",
		shortly(l.looked.clock-l.extended.clock-own))
}
