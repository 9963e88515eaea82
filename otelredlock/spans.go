package otelredlock

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed6c881748/redlock/redlock"
)

// A call is one that is traced. It is in the context of its events, and nowhere else: whatever becomes
// of the events, nothing is left behind. Begin makes it on the caller's goroutine; after that, only the
// goroutine that delivers events uses it.
type call struct {
	span trace.Span
	op   redlock.Op
	do   *call // the Do that it is a part of; nil: none

	open   map[int]bool   // attempts of which votes are still out
	told   []redlock.Vote // the votes that are events already, by node
	toldOf int            // and of which attempt
	over   time.Time      // when the call ended; the span waits for votes that are out
}

type callKey struct{}

// callOf returns the call to which events with ctx belong, if it is traced; not one of which only the
// context of its function is a part of ctx.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	if c == nil || c.span.SpanContext().SpanID() != trace.SpanContextFromContext(ctx).SpanID() {
		return nil
	}
	return c
}

// Begin starts the span of a call; see [redlock.Tracer].
func (t *Telemetry) Begin(ctx context.Context, op redlock.Op, resources []string) context.Context {
	i := max(slices.Index(operations[:], op), 0)
	within := callOf(ctx)
	ctx, span := t.tracer.Start(ctx, spanNames[i], t.classes.class(resources).start[i]...)
	if !span.IsRecording() {
		return ctx // With its span, which what is within is not to be recorded after, either.
	}
	if p, ok := t.classes.permit(resources); ok {
		span.SetAttributes(p.slot)
	}
	if t.showResources {
		span.SetAttributes(attribute.StringSlice(keyResources, validTexts(resources)))
	}
	c := &call{span: span, op: op}
	if within != nil && within.op == redlock.OpDo {
		c.do = within
	}
	return context.WithValue(ctx, callKey{}, c)
}

// spanNames are the names of spans, by operation.
var spanNames = [len(operations)]string{"redlock lock", "redlock do", "redlock extend", "redlock unlock"}

// trace has an event in the span of its call.
func (t *Telemetry) trace(ctx context.Context, e *redlock.Event) {
	c := callOf(ctx)
	if c == nil {
		t.traceElsewhere(ctx, e)
		return
	}
	switch e.Kind {
	case redlock.EventDecided:
		c.decided(e)
	case redlock.EventSettled:
		c.settled(e)
	case redlock.EventWaiting:
		c.add(e, eventWaiting, attribute.Int(keyPosition, e.Position), attribute.Int(keyAttempts, e.Attempt))
	case redlock.EventHoldAtRisk, redlock.EventHoldEnded:
		t.held(c, e)
	case redlock.EventAcquired, redlock.EventNotAcquired:
		t.locked(c, e)
	case redlock.EventExtended, redlock.EventReleased, redlock.EventDone:
		if e.Kind != redlock.EventExtended {
			c.span.SetAttributes(attribute.Float64(keyHeld, e.Held.Seconds()))
		}
		t.end(c, e)
	default: // They belong to no call.
	}
}

// traceElsewhere has the end of a KeepAlive's hold in the span that was current when it began, if that
// has not ended.
func (t *Telemetry) traceElsewhere(ctx context.Context, e *redlock.Event) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() && (e.Kind == redlock.EventHoldEnded || e.Kind == redlock.EventHoldAtRisk) {
		t.held(&call{span: span}, e)
	}
}

// held tells what becomes of a hold. That a loss is the error of the Do whose lock it was, whatever its
// function returns, Do itself says.
func (t *Telemetry) held(c *call, e *redlock.Event) {
	name, o := eventHoldEnded, endOf(e.Err)
	attrs := []attribute.KeyValue{attribute.String(keyHolder, e.Holder)}
	if e.Kind == redlock.EventHoldAtRisk {
		name = eventAtRisk
		attrs = append(attrs, attribute.String(keyError, outcomes[o].text))
	} else {
		attrs = append(attrs, attribute.String(keyCause, causeOf(o)), attribute.Float64(keyHeld, e.Held.Seconds()))
	}
	if t.showResources && e.Err != nil {
		attrs = append(attrs, attribute.String(keyMessage, validText(e.Err.Error())))
	}
	c.add(e, name, attrs...)
}

// locked ends the span of a lock, and that of a Do that has got none.
func (t *Telemetry) locked(c *call, e *redlock.Event) {
	attrs := []attribute.KeyValue{attribute.Int(keyAttempts, e.Attempt)}
	if e.Owner != "" {
		attrs = append(attrs, attribute.String(keyOwner, e.Owner))
	}
	if e.Kind == redlock.EventAcquired {
		attrs = append(attrs, attribute.String(keyHolder, e.Holder))
		if e.Fence > 0 {
			attrs = append(attrs, attribute.Int64(keyFence, e.Fence))
		}
	}
	c.span.SetAttributes(attrs...)
	t.end(c, e)
	switch do := c.do; {
	case do == nil:
	case e.Kind == redlock.EventAcquired:
		do.span.SetAttributes(attrs...)
	default:
		t.end(do, e)
	}
}

// end ends the call's span, now or when the last votes have come.
func (t *Telemetry) end(c *call, e *redlock.Event) {
	if e.Err != nil {
		failed := outcomes[endOf(e.Err)]
		c.span.SetAttributes(attribute.String(keyError, failed.text))
		switch {
		case failed.failure && t.showResources:
			c.span.SetStatus(codes.Error, validText(e.Err.Error()))
		case failed.failure:
			c.span.SetStatus(codes.Error, "")
		}
	}
	c.over = e.Time
	c.endIfSettled()
}

func (c *call) endIfSettled() {
	if !c.over.IsZero() && len(c.open) == 0 {
		c.span.End(trace.WithTimestamp(c.over))
	}
}

// add adds an event to the span.
func (c *call) add(e *redlock.Event, name string, attrs ...attribute.KeyValue) {
	c.span.AddEvent(name, trace.WithTimestamp(e.Time), trace.WithAttributes(attrs...))
}

// decided tells of a round that was decided: an attempt, if it was to lock.
func (c *call) decided(e *redlock.Event) {
	yes, pending := 0, false
	for _, v := range e.Votes {
		switch voteOf(v) {
		case "yes":
			yes++
		case "pending":
			pending = true
		}
	}
	attrs := []attribute.KeyValue{attribute.Int(keyVotesYes, yes), attribute.Float64(keyDuration, e.Took.Seconds())}
	if e.Attempt > 0 {
		attrs = append(attrs, attribute.Int(keyAttempt, e.Attempt))
	}
	if e.Err != nil {
		attrs = append(attrs, attribute.String(keyError, outcomes[outcomeOf(e.Err)].text))
	}
	c.add(e, eventAttempt, attrs...)
	if !pending {
		c.votes(e)
		return
	}
	if c.open == nil {
		c.open = make(map[int]bool)
	}
	c.open[e.Attempt] = true
}

// settled tells of a round of which all votes are known.
func (c *call) settled(e *redlock.Event) {
	c.votes(e)
	delete(c.open, e.Attempt)
	c.endIfSettled()
}

// votes adds the votes of a round, each at its own time, that are no events yet: a round that asks some
// nodes again settles twice.
func (c *call) votes(e *redlock.Event) {
	if c.told == nil || c.toldOf != e.Attempt {
		c.told, c.toldOf = make([]redlock.Vote, len(e.Votes)), e.Attempt
	}
	began := e.Time.Add(-e.Took)
	for i, v := range e.Votes {
		if v.Took == c.told[i].Took && v.Node == c.told[i].Node {
			continue
		}
		c.told[i] = v
		attrs := []attribute.KeyValue{
			attribute.String(keyNode, validText(v.Node)), attribute.String(keyVote, voteOf(v)), attribute.Float64(keyDuration, v.Took.Seconds()),
		}
		if e.Attempt > 0 {
			attrs = append(attrs, attribute.Int(keyAttempt, e.Attempt))
		}
		if v.Holder != "" {
			attrs = append(attrs, attribute.String(keyHolder, v.Holder))
		}
		c.span.AddEvent(eventVote, trace.WithTimestamp(began.Add(v.Took)), trace.WithAttributes(attrs...))
	}
}
