package redlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/admission"
	"github.com/seed6c881748/redlock/internal/node"
)

// This file is about what a call and its caller notice of an overload; package admission
// decides when there is one.

// turnedAway returns the error of an attempt that was not made because of why: it was
// turned away, or its context or Close ended its wait. Nothing was asked of any node.
func (a *acquisition) turnedAway(ctx context.Context, why error, number int) error {
	e := &QuorumError{
		Op: OpLock, Resources: slices.Clone(a.resources), Need: a.r.need, Attempt: number,
		Votes: make([]Vote, len(a.r.nodes)), reason: ErrNoQuorum, prefix: a.r.defaults.prefix,
	}
	for i, n := range a.r.nodes {
		e.Votes[i] = Vote{Node: n.Name, Err: ErrOverloaded, stance: node.Silent}
	}
	if !errors.Is(why, admission.ErrTurnedAway) {
		return a.endedBy(why, e)
	}
	a.r.counters.overloaded.Add(1)
	now := time.Now()
	for _, n := range a.r.nodes {
		n.RefusedElsewhere(now, a.o.nodeTimeout)
	}
	a.r.overloads.report(ctx, a.r.events, e)
	return e
}

// leaveLocked gives the round's place back when its votes decide it, or when none is
// pending. That the caller has given up does not: what it has asked is still the nodes'
// to do, and calls that end early would overload them. rd.mu is held.
func (rd *round) leaveLocked(now time.Time) {
	v := rd.judge(rd.tally, rd.r.need, len(rd.ballots))
	if v == undecided && rd.pending > 0 {
		return
	}
	took := now.Sub(rd.start)
	rd.r.admission.Leave(admission.Sample{
		Took: took, Timeout: rd.admitted, Answered: v == granted || v == taken, Late: v == noQuorum && took >= rd.task.Limit,
	}, now)
	rd.admitted = 0
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
