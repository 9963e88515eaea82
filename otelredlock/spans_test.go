package otelredlock_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed6c881748/redlock/otelredlock"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
	"github.com/seed6c881748/redlock/test/testkit"
)

func TestSpansOfALock(t *testing.T) {
	inBubble(t, setup{opts: []redlock.Option{redlock.WithOwner("me"), redlock.WithFencing()}}, func(t *testing.T, r *rig) {
		ctx, parent := r.tracer.Tracer("test").Start(t.Context(), "work")
		l, err := r.TryLock(ctx, []string{"invoice:7"}, ttl)
		require.NoError(t, err)
		require.NoError(t, l.Extend(ctx, ttl))
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(ctx))
		spans := r.ended()
		assert.ElementsMatch(t, []string{"redlock lock", "redlock extend", "redlock unlock"}, names(spans))
		for _, s := range spans {
			assert.Equal(t, parent.SpanContext().SpanID(), s.Parent().SpanID())
			assert.Equal(t, codes.Unset, s.Status().Code)
			assert.Equal(t, trace.SpanKindInternal, s.SpanKind())
			assert.Equal(t, "invoice", values(s.Attributes())["redlock.resource.class"])
			assert.NotContains(t, values(s.Attributes()), "redlock.resources")
			assert.Less(t, s.EndTime().Sub(s.StartTime()), defaultNodeTimeout, "ends with its call, not with the last vote")
			require.Len(t, events(s, "redlock.attempt"), 1)
			votes := events(s, "redlock.vote")
			require.Len(t, votes, 3, "of all nodes")
			for _, v := range votes {
				assert.Equal(t, "yes", v["redlock.vote"])
				assert.NotEmpty(t, v["redlock.node.name"])
			}
		}
		lock := values(named(t, spans, "redlock lock").Attributes())
		assert.Equal(t, int64(1), lock["redlock.attempts"])
		assert.Equal(t, l.Fence(), lock["redlock.fence"])
		assert.Equal(t, "me", lock["redlock.owner"])
		assert.NotEmpty(t, lock["redlock.holder"])
		assert.InDelta(t, 1, values(named(t, spans, "redlock unlock").Attributes())["redlock.hold.duration"], 0.1)
		parent.End()
	})
}

func TestSpansOfAnAttemptThatFails(t *testing.T) {
	opts := []redlock.Option{redlock.WithRetryCount(1), redlock.WithRetryJitter(0)}
	inBubble(t, setup{opts: opts}, func(t *testing.T, r *rig) {
		r.nodes.Take("x", time.Hour)
		_, err := r.Lock(t.Context(), []string{"x"}, ttl)
		require.ErrorIs(t, err, redlock.ErrTaken)
		span := named(t, r.ended(), "redlock lock")
		assert.Equal(t, "taken", values(span.Attributes())["error.type"])
		assert.Equal(t, codes.Unset, span.Status().Code, "somebody else has it, which is ordinary")
		assert.NotEmpty(t, events(span, "redlock.waiting"))
		attempts := events(span, "redlock.attempt")
		require.GreaterOrEqual(t, len(attempts), 2)
		assert.Equal(t, "taken", attempts[0]["error.type"])
		refusals, votes := 0, events(span, "redlock.vote")
		assert.GreaterOrEqual(t, len(votes), 6)
		for _, v := range votes {
			if v["redlock.vote"] == "taken" {
				refusals++
				assert.NotEmpty(t, v["redlock.holder"])
			}
		}
		assert.GreaterOrEqual(t, refusals, 4, "two each; a third node may not have been asked any more")

		r.nodes.HangMajority()
		start := time.Now()
		_, err = r.TryLock(t.Context(), []string{"y"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		took := time.Since(start)
		span = named(t, r.ended(), "redlock lock")
		assert.Equal(t, "no_quorum", values(span.Attributes())["error.type"])
		assert.Equal(t, codes.Error, span.Status().Code)
		assert.Empty(t, span.Status().Description, "the text names the resource")
		assert.Equal(t, took, span.EndTime().Sub(span.StartTime()))
		said := map[any]int{}
		for _, v := range events(span, "redlock.vote") {
			said[v["redlock.vote"]]++
		}
		assert.Equal(t, map[any]int{"yes": 1, "timeout": 2}, said)
		r.nodes.Recover()
	})
}

// The votes of slow nodes come when the call has long gone on.
func TestTheVoteOfASlowNodeIsInTheSpan(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, r *rig) {
		testkit.Cycle(t, r.Redlock, "warm", ttl)
		r.ended()
		r.nodes.Slow(20 * time.Millisecond)
		for i := range 10 { // In some of them, the third vote is in before the call has returned.
			testkit.TryLock(t, r.Redlock, []string{strconv.Itoa(i)}, ttl)
		}
		spans := r.ended()
		assert.Len(t, spans, 10)
		for _, span := range spans {
			for _, e := range span.Events() {
				if e.Name == "redlock.vote" {
					assert.GreaterOrEqual(t, e.Time.Sub(span.StartTime()), 20*time.Millisecond, "at its own time")
				}
			}
			assert.Len(t, events(span, "redlock.vote"), 3)
		}
	})
}

func TestSpansOfADo(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, r *rig) {
		err := r.Do(t.Context(), []string{"job:1"}, ttl, func(ctx context.Context, _ *redlock.Lock) error {
			_, inner := r.tracer.Tracer("test").Start(ctx, "work")
			time.Sleep(ttl / 2)
			inner.End()
			return nil
		})
		require.NoError(t, err)
		spans := r.ended()
		assert.ElementsMatch(t, []string{"redlock do", "redlock lock", "work", "redlock extend", "redlock unlock"}, names(spans))
		do := named(t, spans, "redlock do")
		for _, s := range spans {
			if s != do {
				assert.Equal(t, do.SpanContext().SpanID(), s.Parent().SpanID(), s.Name())
			}
		}
		assert.Equal(t, codes.Unset, do.Status().Code)
		ends := events(do, "redlock.hold.ended")
		require.Len(t, ends, 1)
		assert.Equal(t, "released", ends[0]["redlock.hold.end"])
		assert.InDelta(t, 4.5, values(do.Attributes())["redlock.hold.duration"], 0.1)
	})
}

func nothing(context.Context, *redlock.Lock) error { return nil }

// What has ended a Do is in its span, and of a hold that has ended before, the loss.
func TestTheLossOfAHoldIsOnItsDo(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, r *rig) {
		for _, tt := range []struct {
			is   string
			work func(ctx context.Context, l *redlock.Lock) error
		}{
			{"_OTHER", func(context.Context, *redlock.Lock) error { return errors.New("the work's own") }},
			{"lost", func(ctx context.Context, l *redlock.Lock) error { r.nodes.Lose(l); <-ctx.Done(); return nil }},
			{"expired", func(ctx context.Context, _ *redlock.Lock) error { r.nodes.HangMajority(); <-ctx.Done(); return nil }},
		} {
			require.Error(t, r.Do(t.Context(), []string{"job"}, ttl, tt.work))
			r.nodes.Recover()
			do := named(t, r.ended(), "redlock do")
			assert.Equal(t, codes.Error, do.Status().Code)
			assert.Equal(t, tt.is, values(do.Attributes())["error.type"])
			ends := events(do, "redlock.hold.ended")
			require.Len(t, ends, 1)
			if tt.is != "_OTHER" {
				assert.Equal(t, tt.is, ends[0]["redlock.hold.end"])
			}
			assert.Len(t, events(do, "redlock.hold.at_risk"), map[string]int{"expired": 1}[tt.is])
		}
		r.nodes.Take("job", time.Hour)
		require.ErrorIs(t, r.Do(t.Context(), []string{"job"}, ttl, nothing), redlock.ErrNotAcquired)
		spans := r.ended()
		assert.ElementsMatch(t, []string{"redlock do", "redlock lock"}, names(spans), "a Do without a lock ends, too")
		assert.Equal(t, "taken", values(named(t, spans, "redlock do").Attributes())["error.type"])
	})
}

// The hold of a KeepAlive has no span: what becomes of it is told in the one that it began in.
func TestTheLossOfAKeepAliveIsInTheSpanAroundIt(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, r *rig) {
		ctx, span := r.tracer.Tracer("test").Start(t.Context(), "work")
		l, err := r.TryLock(ctx, []string{"x"}, ttl)
		require.NoError(t, err)
		kept := l.KeepAlive(ctx)
		r.nodes.Lose(l)
		<-kept.Done()
		r.ended()
		span.End()
		work := named(t, r.ended(), "work")
		require.Len(t, events(work, "redlock.hold.ended"), 1)
		assert.Equal(t, codes.Unset, work.Status().Code, "it is not ours to say how it ended")
		require.ErrorIs(t, l.Unlock(ctx), redlock.ErrLost)
	})
}

func TestResourcesAreShownOnlyWhenAskedFor(t *testing.T) {
	inBubble(t, setup{tel: []otelredlock.Option{otelredlock.WithSpanResources()}}, func(t *testing.T, r *rig) {
		r.nodes.HangMajority()
		_, err := r.TryLock(t.Context(), []string{"b:1", "a:2"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		r.nodes.Recover()
		span := named(t, r.ended(), "redlock lock")
		assert.Equal(t, []string{"a:2", "b:1"}, values(span.Attributes())["redlock.resources"])
		assert.Equal(t, "mixed", values(span.Attributes())["redlock.resource.class"])
		assert.Contains(t, span.Status().Description, "a:2")
	})
}

func TestADroppedTraceCostsNoEvents(t *testing.T) {
	inBubble(t, setup{sampler: sdktrace.NeverSample()}, func(t *testing.T, r *rig) {
		var within trace.SpanContext
		require.NoError(t, r.Do(t.Context(), []string{"x"}, ttl, func(ctx context.Context, _ *redlock.Lock) error {
			within = trace.SpanContextFromContext(ctx)
			assert.False(t, r.tel.Wants(ctx, redlock.EventDecided))
			assert.False(t, r.tel.Wants(ctx, redlock.EventSettled))
			assert.False(t, r.tel.Wants(ctx, redlock.EventAcquired))
			return nil
		}))
		assert.True(t, within.IsValid(), "what is within is dropped with it")
		assert.False(t, within.IsSampled())
		assert.Empty(t, r.ended())
		points := r.metrics()
		assert.InDelta(t, 1, points["redlock.lock.acquire.duration{redlock.resource.class=x}"], 0, "the metrics go on")
		assert.InDelta(t, 1, points["redlock.hold.ended{redlock.hold.end=released,redlock.resource.class=x}"], 0)
	})
}

// Permits of a semaphore that was named are told from other locks, whatever those are named.
func TestSemaphores(t *testing.T) {
	named := otelredlock.WithSemaphores("img:resize", "api", "api")
	inBubble(t, setup{tel: []otelredlock.Option{named}}, func(t *testing.T, r *rig) {
		s, err := semaphore.New(r.Redlock, "img:resize", 3, ttl)
		require.NoError(t, err)
		err = s.Do(t.Context(), func(ctx context.Context, p *semaphore.Permit) error { return p.Extend(ctx, ttl) })
		require.NoError(t, err)
		spans := r.ended()
		assert.Subset(t, names(spans), []string{"redlock lock", "redlock do", "redlock extend", "redlock unlock"})
		for _, span := range spans {
			attrs := values(span.Attributes())
			assert.Equal(t, "img:resize", attrs["redlock.semaphore"])
			assert.Equal(t, "img", attrs["redlock.resource.class"])
			assert.Contains(t, attrs, "redlock.slot")
			assert.NotContains(t, attrs, "redlock.resources")
		}
		m := r.metrics()
		const of = "redlock.resource.class=img,redlock.semaphore=img:resize}"
		for _, name := range []string{
			"lock.acquire.duration{", "lock.attempts{", "lock.extend.duration{", "hold.ended{redlock.hold.end=released,",
		} {
			assert.InDelta(t, 1, m["redlock."+name+of], 0, name)
		}
		assert.Contains(t, m, "redlock.hold.ended{redlock.hold.end=lost,redlock.resource.class=api,redlock.semaphore=api}")
		for name := range m {
			assert.NotContains(t, name, "redlock.slot")
			assert.NotContains(t, name, "resize#")
		}

		for resource, slot := range map[string]any{ // Of what is no slot, or not known to be one, nothing.
			"img:resize#0": int64(0), "api#3": int64(3), "img:resize#255": int64(255),
			"img:resize": nil, "img:resize#03": nil, "img:resize#256": nil, "other#1": nil,
		} {
			testkit.Cycle(t, r.Redlock, resource, ttl)
			for _, span := range r.ended() {
				assert.Equal(t, slot, values(span.Attributes())["redlock.slot"], resource)
			}
		}
	})
}

// Whatever becomes of a call, its span ends: the Redlock tells of the end of each.
func TestSpansEnd(t *testing.T) {
	inBubble(t, setup{opts: []redlock.Option{redlock.WithFencing()}}, func(t *testing.T, r *rig) {
		x, until := []string{"x"}, func(ctx context.Context, _ *redlock.Lock) error { <-ctx.Done(); return nil }
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, r.Do(gone, x, ttl, nothing))
		assert.Panics(t, func() {
			_ = r.Do(t.Context(), x, ttl, func(context.Context, *redlock.Lock) error { panic("oh") })
		})
		held := testkit.TryLock(t, r.Redlock, x, ttl)
		require.Error(t, held.Extend(gone, -ttl))
		r.nodes.HangMajority()
		require.Error(t, held.Extend(t.Context(), ttl))
		_ = held.Unlock(gone)
		r.nodes.Recover()
		defer r.nodes.Take("x", time.Hour)()
		go func() { _ = r.Do(t.Context(), x, ttl, nothing, redlock.WithRetryCount(-1)) }()
		go func() { _ = r.Do(t.Context(), []string{"job"}, ttl, until) }()
		synctest.Wait()
		_ = r.Close(t.Context())
		require.ErrorIs(t, r.Do(t.Context(), x, ttl, nothing), redlock.ErrClosed)
		assert.ElementsMatch(t, names(r.spans.Started()), names(r.ended()))
	})
}
