package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// This file is about what a call and its caller notice of an overload; admission.go
// decides when there is one.

// turnedAway returns the error of an attempt that was not made because of why: it was
// turned away, or its context or Close ended its wait. Nothing was asked of any node.
func (a *acquisition) turnedAway(ctx context.Context, why error, number int) error {
	e := &QuorumError{
		Op: OpLock, Resources: slices.Clone(a.resources), Need: a.r.need, Attempt: number,
		Votes: make([]Vote, len(a.r.nodes)), reason: ErrNoQuorum, prefix: a.r.defaults.prefix,
	}
	for i, n := range a.r.nodes {
		e.Votes[i] = Vote{Node: n.name, Err: ErrOverloaded, stance: silent}
	}
	if !errors.Is(why, ErrOverloaded) {
		return a.endedBy(why, e)
	}
	a.r.counters.overloaded.Add(1)
	now := time.Now()
	for _, n := range a.r.nodes {
		n.shun(now, a.o.nodeTimeout)
	}
	a.r.overloads.report(ctx, a.r.events, e)
	return e
}

// isOverload reports whether an attempt failed with err because of an overload: so many
// nodes were not asked that the others could not make a quorum.
func isOverload(err error) bool {
	no := refusal(err)
	if no == nil {
		return false
	}
	unasked := 0
	for _, v := range no.Votes {
		if errors.Is(v.Err, ErrOverloaded) {
			unasked++
		}
	}
	return unasked > len(no.Votes)-no.Need
}

// overloads sends the events about attempts that are turned away: thousands are in a
// second, so one event stands for many.
type overloads struct {
	mu     sync.Mutex
	last   time.Time // when the last event was sent
	unsent int       // turned away since then
}

// overloadEvery is the least time between two events.
const overloadEvery = time.Second

func (o *overloads) report(ctx context.Context, events *dispatcher, e *QuorumError) {
	if !events.on() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unsent++
	now := time.Now()
	if !o.last.IsZero() && now.Sub(o.last) < overloadEvery {
		return
	}
	events.send(ctx, Event{
		Kind: EventOverloaded, Op: e.Op, Resources: slices.Clone(e.Resources), Attempt: e.Attempt,
		Votes: slices.Clone(e.Votes), Err: e.clone(), TurnedAway: o.unsent,
	})
	o.last, o.unsent = now, 0
}

// maxOverloadDelay bounds what a row of overloads makes of a shorter retry delay.
const maxOverloadDelay = 5 * time.Second

// A backoff has a Lock wait longer after each attempt of a row that failed because of an
// overload: those who are turned away must not be back at once, or they only make
// the line longer.
type backoff struct {
	row int // how many attempts have failed so, one after the other
}

// note takes in how an attempt has ended. A second look, which is no timed attempt, may
// begin a row but makes it no longer: how often a waiter looks besides must not put off its
// timed retries.
func (b *backoff) note(err error, timed bool) {
	switch {
	case !isOverload(err):
		b.row = 0
	case timed || b.row == 0:
		b.row++
	}
}

// delay is how long to wait before the timed retry of this number: as the options say, and in
// an overload at least that or the node timeout, doubled with each attempt of the
// row, ± 50 %.
func (b *backoff) delay(o *options, number int) time.Duration {
	d := o.delay(number)
	if b.row == 0 {
		return d
	}
	return max(d, b.doubled(max(d, o.nodeTimeout)))
}

// look is how long to wait, in an overload, before a second look that is no timed attempt.
func (b *backoff) look(o *options) time.Duration { return b.doubled(o.nodeTimeout) }

// doubled returns d, doubled with each attempt of the row but the first, ± 50 %.
func (b *backoff) doubled(d time.Duration) time.Duration {
	for i := 1; i < b.row && d < maxOverloadDelay; i++ {
		d = min(2*d, maxOverloadDelay)
	}
	return d/2 + rand.N(d)
}
