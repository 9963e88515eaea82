package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/dispatch"
)

// This file sends events to the hook and the tracer, and keeps notable ones.

func (co *core) begin(ctx context.Context, op Op, resources []string) context.Context {
	if co.defaults.tracer == nil {
		return ctx
	}
	return co.defaults.tracer.Begin(ctx, op, resources)
}

// wants reports whether it is worth making an event.
func (co *core) wants(ctx context.Context, kind EventKind, err error) bool {
	return isNotable(kind, err) || co.hasListener(ctx, kind)
}

func (co *core) hasListener(ctx context.Context, kind EventKind) bool {
	return co.defaults.hook != nil || co.defaults.tracer != nil && tracerWants(ctx, co.defaults.tracer, kind)
}

// tracerWants survives a panic of the user's code, under which mutexes are held.
func tracerWants(ctx context.Context, t Tracer, kind EventKind) (wants bool) {
	defer func() { _ = recover() }()
	return t.Wants(ctx, kind)
}

// listener returns what receives the event, nil if nothing does.
func listener(hook Hook, tracer Tracer) Hook {
	if tracer == nil {
		return hook
	}
	return func(ctx context.Context, e Event) {
		if hook == nil || tracerWants(ctx, tracer, e.Kind) { // Without a hook, send has asked the tracer already.
			tracer.Event(ctx, e)
		}
		if hook != nil {
			hook(ctx, e)
		}
	}
}

// overloadEvery is the least time between two events about attempts that are turned away: that may happen thousands of
// times a second, so one event stands for many.
const overloadEvery = time.Second

// tellOverload sends an event about a turned-away attempt, unless one was sent a moment ago.
func (co *core) tellOverload(ctx context.Context, e *QuorumError) {
	if before, pass := co.overloads.Pass(time.Now(), overloadEvery); pass {
		co.send(ctx, Event{
			Kind: EventOverloaded, Op: e.Op, Resources: slices.Clone(e.Resources), Attempt: e.Attempt,
			Votes: slices.Clone(e.Votes), Err: e.clone(), TurnedAway: before + 1,
		})
	}
}

// stamp sets an event's time and the number of its call when it is sent.
func stamp(e *Event, now time.Time, call uint64) { e.Time, e.Call = now, call }

// isNotable reports whether RecentEvents should show the event. It must return false for ordinary work: without a hook,
// such events are not even made.
func isNotable(kind EventKind, err error) bool {
	switch kind {
	case EventNodeUp, EventNodeDown, EventNodeUnresponsive, EventKeysVanished, EventNodeCleaned, EventPolling, EventOverloaded, EventHoldAtRisk,
		EventSetsDiffer, EventSetsAgree:
		return true
	case EventHoldEnded, EventReleased, EventExtended:
		return err != nil
	case EventNotAcquired:
		return errors.Is(err, ErrNoQuorum) && !isOverload(err)
	default:
		return false
	}
}

// end sends the event of the end of a call to tracer and hook. fill adds the fields about the call's lock.
func (co *core) end(ctx context.Context, e Event, fill func(e *Event)) {
	if t := co.defaults.tracer; t != nil {
		t.End(ctx, e)
	}
	if !co.wants(ctx, e.Kind, e.Err) {
		return
	}
	e.Resources, e.Votes = slices.Clone(e.Resources), slices.Clone(e.Votes)
	fill(&e)
	co.send(ctx, e)
}

// send sends an event to hook and tracer, and keeps a copy if it is notable.
func (co *core) send(ctx context.Context, e Event) {
	if isNotable(e.Kind, e.Err) {
		c := e.clone()
		stamp(&c, time.Now(), dispatch.CallOf(ctx))
		co.keep(c)
	}
	if co.hasListener(ctx, e.Kind) {
		co.events.Send(ctx, e)
	}
}

// keep keeps a notable event. Of failed acquisitions and extensions, which come in thousands while nodes are away, it
// keeps one a second. It keeps every loss of a lock, though there may be as many.
func (co *core) keep(e Event) {
	due := true
	switch e.Kind {
	case EventNotAcquired:
		_, due = co.notAcquired.Pass(e.Time, time.Second)
	case EventExtended:
		_, due = co.notExtended.Pass(e.Time, time.Second)
	}
	switch {
	case !due:
	case e.Node != "":
		co.recentNodes.Add(e)
	default:
		co.recentCalls.Add(e)
	}
}
