package otelredlock_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/seed6c881748/redlock/otelredlock"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
	"github.com/seed6c881748/redlock/test/testkit"
)

// allEnded fails if a span has begun and not ended.
func (r *rig) allEnded(t *testing.T) {
	t.Helper()
	time.Sleep(2 * defaultNodeTimeout)
	synctest.Wait()
	ended := map[any]bool{}
	for _, s := range r.spans.Ended() {
		ended[s.SpanContext().SpanID()] = true
	}
	for _, s := range r.spans.Started() {
		assert.Truef(t, ended[s.SpanContext().SpanID()], "%s has not ended", s.Name())
	}
	assert.NotEmpty(t, ended)
	r.spans.Reset()
}

// Whatever becomes of a call, its span ends.
func TestSpansEnd(t *testing.T) {
	x := []string{"x"}
	for name, call := range map[string]func(t *testing.T, r *rig){
		"context that had ended": func(t *testing.T, r *rig) {
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := r.TryLock(gone, x, ttl)
			require.Error(t, err)
			_, err = r.Lock(gone, x, ttl)
			require.Error(t, err)
			require.Error(t, r.Do(gone, x, ttl, nothing))
			l := testkit.TryLock(t, r.Redlock, x, ttl)
			_ = l.Extend(gone, ttl)
			_ = l.Unlock(gone)
		},
		"context that ends": func(t *testing.T, r *rig) {
			defer r.nodes.Take("x", time.Hour)()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := r.Lock(ctx, x, ttl, redlock.WithRetryCount(-1))
			require.Error(t, err)
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.Error(t, r.Do(ctx, x, ttl, nothing, redlock.WithRetryCount(-1)))
		},
		"context that ends in a Do": func(t *testing.T, r *rig) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_ = r.Do(ctx, x, ttl, func(ctx context.Context, _ *redlock.Lock) error { <-ctx.Done(); return ctx.Err() })
		},
		"panic in a Do": func(t *testing.T, r *rig) {
			assert.Panics(t, func() {
				_ = r.Do(t.Context(), x, ttl, func(context.Context, *redlock.Lock) error { panic("oh") })
			})
		},
		"Goexit in a Do": func(t *testing.T, r *rig) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = r.Do(t.Context(), x, ttl, func(context.Context, *redlock.Lock) error { runtime.Goexit(); return nil })
			}()
			<-done
		},
		"Unlock in a Do": func(t *testing.T, r *rig) {
			require.NoError(t, r.Do(t.Context(), x, ttl, func(ctx context.Context, l *redlock.Lock) error { return l.Unlock(ctx) }))
		},
		"wrong and repeated": func(t *testing.T, r *rig) {
			_, err := r.TryLock(t.Context(), nil, ttl)
			require.Error(t, err)
			_, err = r.TryLock(t.Context(), x, -ttl)
			require.Error(t, err)
			l := testkit.TryLock(t, r.Redlock, x, ttl)
			require.Error(t, l.Extend(t.Context(), -ttl))
			require.NoError(t, l.Unlock(t.Context()))
			_ = l.Unlock(t.Context())
			_ = l.Extend(t.Context(), ttl)
		},
		"after the end": func(t *testing.T, r *rig) {
			l := testkit.TryLock(t, r.Redlock, x, ttl)
			time.Sleep(2 * ttl)
			require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrLost)
			require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrLost)
		},
		"no node answers": func(t *testing.T, r *rig) {
			l := testkit.TryLock(t, r.Redlock, x, ttl)
			r.nodes.HangMajority()
			require.Error(t, l.Extend(t.Context(), ttl))
			_ = l.Unlock(t.Context())
			_, err := r.TryLock(t.Context(), []string{"y"}, ttl)
			require.Error(t, err)
			require.Error(t, r.Do(t.Context(), []string{"y"}, ttl, nothing))
			r.nodes.Recover()
		},
		"Close in the middle": func(t *testing.T, r *rig) {
			held := testkit.TryLock(t, r.Redlock, []string{"kept"}, ttl)
			held.KeepAlive(t.Context())
			defer r.nodes.Take("x", time.Hour)()
			for range 3 {
				go func() { _, _ = r.Lock(t.Context(), x, ttl, redlock.WithRetryCount(-1)) }()
				go func() { _ = r.Do(t.Context(), x, ttl, nothing, redlock.WithRetryCount(-1)) }()
			}
			go func() {
				_ = r.Do(t.Context(), []string{"job"}, ttl, func(ctx context.Context, _ *redlock.Lock) error { <-ctx.Done(); return nil })
			}()
			synctest.Wait()
			_ = r.Close(t.Context())
			_, err := r.TryLock(t.Context(), x, ttl)
			require.ErrorIs(t, err, redlock.ErrClosed)
			_ = held.Unlock(t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, setup{opts: []redlock.Option{redlock.WithFencing()}}, func(t *testing.T, r *rig) {
				call(t, r)
				r.allEnded(t)
			})
		})
	}
}

// A function for the class that panics, or returns what is no text, costs its class and nothing else.
func TestClassThatFails(t *testing.T) {
	of := func(r string) string {
		if r == "bad" {
			panic("no class")
		}
		return r
	}
	inBubble(t, setup{tel: []otelredlock.Option{otelredlock.WithClass(of), otelredlock.WithSpanResources()}}, func(t *testing.T, r *rig) {
		for _, resource := range []string{"bad", "\xff\xfe", "good"} {
			require.NoError(t, r.Do(t.Context(), []string{resource}, ttl, nothing))
		}
		m := r.metrics()
		assert.InDelta(t, 1, m["redlock.lock.attempts{redlock.resource.class=_OTHER}"], 0, "%v", m)
		assert.InDelta(t, 1, m["redlock.lock.attempts{redlock.resource.class=\ufffd}"], 0, "OTLP and Prometheus take UTF-8 only")
		assert.InDelta(t, 1, m["redlock.hold.ended{redlock.hold.end=released,redlock.resource.class=good}"], 0)
		for _, s := range r.spans.Ended() {
			if resources, ok := values(s.Attributes())["redlock.resources"].([]string); ok && resources[0] != "bad" && resources[0] != "good" {
				assert.Equal(t, []string{"\ufffd"}, resources)
			}
		}
		r.allEnded(t)
		assert.Zero(t, r.Stats().Held)
	})
}

// After Close nothing of the Redlock is shown any more, nor is it kept in memory by the provider.
func TestNothingIsObservedAfterClose(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, r *rig) {
		require.NoError(t, r.Do(t.Context(), []string{"x"}, ttl, nothing))
		assert.Contains(t, r.metrics(), "redlock.lock.held{}")
		require.NoError(t, r.Close(t.Context()))
		assert.Contains(t, r.metrics(), "redlock.lock.held{}", "the last figures can be flushed")
		require.NoError(t, r.tel.Close())
		for name := range r.metrics() {
			assert.Contains(t, name, ".duration", "only what was measured before")
		}
	})
}

// The figures of two Redlocks that share a provider are added up, and stay those of one when the other is closed.
func TestTwoRedlocksWithOneProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		var rigs []*rig
		for range 2 {
			tel, err := otelredlock.New(otelredlock.WithMeterProvider(provider), otelredlock.WithClass(nil))
			require.NoError(t, err)
			nodes := redlocktest.New(t, 3, redlock.WithTracer(tel))
			require.NoError(t, tel.Observe(nodes.Redlock))
			rigs = append(rigs, &rig{Redlock: nodes.Redlock, t: t, reader: reader, tel: tel, nodes: nodes})
		}
		for _, r := range rigs {
			testkit.TryLock(t, r.Redlock, []string{"x"}, ttl)
		}
		m := rigs[0].metrics()
		assert.InDelta(t, 2, m["redlock.lock.held{}"], 0)
		assert.InDelta(t, 2, m["redlock.lock.attempts{}"], 0, "%v", m)
		require.NoError(t, rigs[0].tel.Close())
		assert.InDelta(t, 1, rigs[1].metrics()["redlock.lock.held{}"], 0)
	})
}
