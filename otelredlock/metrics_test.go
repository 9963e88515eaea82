package otelredlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/otelredlock"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
	"github.com/seed6c881748/redlock/test/testkit"
)

func TestMetrics(t *testing.T) {
	opts := []redlock.Option{redlock.WithRetryCount(1), redlock.WithRetryDelay(100 * time.Millisecond), redlock.WithRetryJitter(0)}
	inBubble(t, setup{opts: opts}, func(t *testing.T, r *rig) {
		l := testkit.TryLock(t, r.Redlock, []string{"invoice:7"}, ttl)
		_, err := r.TryLock(t.Context(), []string{"invoice:7"}, ttl)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, l.Extend(t.Context(), ttl))
		require.NoError(t, l.Unlock(t.Context()))
		r.nodes.Take("job:1", 50*time.Millisecond)
		require.NoError(t, r.Do(t.Context(), []string{"job:1"}, ttl, nothing))
		var during map[string]float64
		err = r.Do(t.Context(), []string{"job:2"}, ttl, func(ctx context.Context, lock *redlock.Lock) error {
			during = r.metrics() //nolint:contextcheck // A collection is no part of the work.
			r.nodes.Lose(lock)
			<-ctx.Done()
			return nil
		})
		require.ErrorIs(t, err, redlock.ErrLost)
		assert.InDelta(t, 1, during["redlock.lock.held{}"], 0)
		assert.InDelta(t, 1, during["redlock.lock.kept{}"], 0)
		m := r.metrics()
		for name, want := range map[string]float64{
			"redlock.hold.ended{redlock.hold.end=expired,redlock.resource.class=job}":        0, // Or its first increase would not be seen.
			"redlock.lock.attempts{error.type=no_quorum,redlock.resource.class=job}":         0,
			"redlock.lock.acquire.duration{redlock.resource.class=invoice}":                  1,
			"redlock.lock.acquire.duration{error.type=taken,redlock.resource.class=invoice}": 1,
			"redlock.lock.acquire.duration{redlock.resource.class=job}":                      2,
			"redlock.lock.wait.duration{redlock.resource.class=job}":                         2,
			"redlock.lock.hold.duration{redlock.resource.class=invoice}":                     1,
			"redlock.lock.hold.duration{error.type=lost,redlock.resource.class=job}":         1,
			"redlock.lock.extend.duration{redlock.resource.class=invoice}":                   1,
			"redlock.lock.attempts{redlock.resource.class=invoice}":                          1,
			"redlock.lock.attempts{error.type=taken,redlock.resource.class=invoice}":         1,
			"redlock.hold.ended{redlock.hold.end=released,redlock.resource.class=job}":       1,
			"redlock.hold.ended{redlock.hold.end=lost,redlock.resource.class=job}":           1,
			"redlock.lock.held{}":      0,
			"redlock.lock.kept{}":      0,
			"redlock.lock.waiting{}":   0,
			"redlock.lock.splits{}":    0,
			"redlock.lock.repairs{}":   0,
			"redlock.events.dropped{}": 0,
		} {
			got, ok := m[name]
			assert.True(t, ok, "%s is missing from %v", name, m)
			assert.InDelta(t, want, got, 0, name)
		}
		for _, meet := range []string{"false", "true"} {
			got, ok := m["redlock.sets.differing{redlock.quorums.meet="+meet+"}"]
			assert.True(t, ok && got == 0, "it must be there before there is anything to tell")
		}
		stats := r.Stats()
		for _, n := range stats.Nodes {
			assert.InDelta(t, 1, m[fmt.Sprintf("redlock.node.up{redlock.node.name=%s}", n.Node)], 0)
			assert.InDelta(t, 0, m[fmt.Sprintf("redlock.node.quarantined{redlock.node.name=%s}", n.Node)], 0)
			assert.InDelta(t, n.Votes.Yes, m[fmt.Sprintf("redlock.node.votes{redlock.node.name=%s,redlock.vote=yes}", n.Node)], 0)
			assert.Positive(t, n.Votes.Yes)
		}
		for name := range m {
			assert.NotRegexp(t, "invoice:|job:", name, "a resource is never a label")
		}
	})
}

// Two faults at a time are told apart where they are known: at each node.
func TestMetricsOfNodesThatAreLateOrLoseKeys(t *testing.T) {
	inBubble(t, setup{opts: []redlock.Option{redlock.WithNodeTimeout(defaultNodeTimeout)}}, func(t *testing.T, r *rig) {
		l := testkit.TryLock(t, r.Redlock, []string{"x"}, ttl)
		assert.Zero(t, r.sum("redlock.node.vanished"))
		assert.Zero(t, r.sum("redlock.node.unresponsive"))
		r.nodes.Lose(l)
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrLost)
		synctest.Wait() // Unlock has returned when a quorum had answered.
		lost := 0.
		for _, n := range r.Stats().Nodes {
			lost += float64(n.Vanished)
		}
		assert.Positive(t, lost)
		assert.InDelta(t, lost, r.sum("redlock.node.vanished"), 0)
		r.nodes.Slow(2 * defaultNodeTimeout)
		for range 5 {
			_, err := r.TryLock(t.Context(), []string{"y"}, ttl)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			time.Sleep(time.Second)
		}
		assert.InDelta(t, 3, r.sum("redlock.node.unresponsive"), 0)
		assert.InDelta(t, 3, r.sum("redlock.node.up"), 0, "they are connected")
		assert.Zero(t, r.sum("redlock.node.down"))
		r.nodes.Slow(0)
		time.Sleep(time.Minute)
		testkit.TryLock(t, r.Redlock, []string{"z"}, ttl)
		assert.Zero(t, r.sum("redlock.node.unresponsive"))
	})
}

// The oldest wait is told by class.
func TestMetricsOfTheOldestWait(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, r *rig) {
		oldest := func(class string) float64 {
			return r.metrics()["redlock.lock.wait.oldest{redlock.resource.class="+class+"}"]
		}
		l := testkit.TryLock(t, r.Redlock, []string{"job:1"}, time.Hour)
		testkit.TryLock(t, r.Redlock, []string{"report:1"}, ttl)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		for _, after := range []time.Duration{0, 5 * time.Second} {
			time.Sleep(after)
			go func() {
				_, err := r.Lock(ctx, []string{"job:1"}, ttl, redlock.WithRetryCount(-1))
				done <- err
			}()
		}
		time.Sleep(7 * time.Second)
		assert.InDelta(t, 12, oldest("job"), 0.1)
		assert.Zero(t, oldest("report"))
		cancel()
		for range 2 {
			require.ErrorIs(t, <-done, context.Canceled)
		}
		assert.Zero(t, oldest("job"))
		_ = l.Unlock(t.Context())
	})
}

// Callers have deadlines. That they give up must not hide why.
func TestWhatTheLastAttemptSawCounts(t *testing.T) {
	wait := func(t *testing.T, r *rig, resource string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Lock(ctx, []string{resource}, ttl, redlock.WithRetryCount(-1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	inBubble(t, setup{}, func(t *testing.T, r *rig) {
		l := testkit.TryLock(t, r.Redlock, []string{"held"}, time.Hour)
		wait(t, r, "held")
		r.nodes.Slow(100 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := r.TryLock(ctx, []string{"slow"}, ttl)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		r.nodes.Slow(0)
		r.nodes.StopMajority()
		wait(t, r, "down")
		_ = l.Unlock(t.Context())
		r.nodes.Recover()
		m := r.metrics()
		for class, want := range map[string]string{"held": "taken", "slow": "canceled", "down": "no_quorum"} {
			assert.InDelta(t, 1, m[fmt.Sprintf("redlock.lock.acquire.duration{error.type=%s,redlock.resource.class=%s}", want, class)], 0, "%s: %v", class, m)
		}
		assert.Positive(t, m["redlock.lock.attempts{error.type=no_quorum,redlock.resource.class=down}"])
	})
}

// A function that returns the resource itself must not fill anybody's memory.
func TestClassesAreBounded(t *testing.T) {
	inBubble(t, setup{tel: []otelredlock.Option{otelredlock.WithClass(func(r string) string { return r })}}, func(t *testing.T, r *rig) {
		for i := range 300 {
			testkit.Cycle(t, r.Redlock, fmt.Sprint("resource ", i), ttl)
		}
		classes := 0
		for name, v := range r.metrics() {
			if strings.HasPrefix(name, "redlock.lock.attempts{redlock") {
				classes++
				if strings.Contains(name, "_OTHER") {
					assert.InDelta(t, 200, v, 0)
				}
			}
		}
		assert.Equal(t, 101, classes)
	})
}

func TestWrongUse(t *testing.T) {
	_, err := otelredlock.New(nil)
	require.Error(t, err)
	_, err = otelredlock.New(otelredlock.WithMeterProvider(nil))
	require.Error(t, err)
	_, err = otelredlock.New(otelredlock.WithSemaphores("a", ""))
	require.EqualError(t, err, "otelredlock: empty name of a semaphore")
	tel, err := otelredlock.New()
	require.NoError(t, err, "without a set-up of OpenTelemetry it does nothing")
	require.Equal(t, "otelredlock.Telemetry", fmt.Sprintf("%+v", tel), "its fields are the providers'")
	require.Error(t, tel.Observe(nil))
	r, err := redlock.New([]redlock.Node{redlock.NewNode("127.0.0.1:1")}, redlock.WithTracer(tel))
	require.NoError(t, err)
	require.NoError(t, tel.Observe(r))
	require.ErrorContains(t, tel.Observe(r), "already")
	require.NoError(t, tel.Close())
	require.NoError(t, tel.Close(), "again")
	require.NoError(t, r.Close(t.Context()))
}

func TestClassThatFails(t *testing.T) {
	of := func(r string) string {
		if r == "bad" {
			panic("no class")
		}
		return r
	}
	inBubble(t, setup{tel: []otelredlock.Option{otelredlock.WithClass(of), otelredlock.WithSpanResources()}}, func(t *testing.T, r *rig) {
		for _, resource := range []string{"bad", "\xff\xfe"} {
			require.NoError(t, r.Do(t.Context(), []string{resource}, ttl, nothing))
			if span := named(t, r.ended(), "redlock do"); resource != "bad" {
				assert.Equal(t, []string{"\ufffd"}, values(span.Attributes())["redlock.resources"])
			}
		}
		m := r.metrics()
		assert.InDelta(t, 1, m["redlock.lock.attempts{redlock.resource.class=_OTHER}"], 0, "%v", m)
		assert.InDelta(t, 1, m["redlock.lock.attempts{redlock.resource.class=\ufffd}"], 0, "OTLP and Prometheus take UTF-8 only")
	})
}

// The figures of two Redlocks that share a provider are added up, and stay those of one when the other is closed. After
// Close nothing of a Redlock is shown any more, nor is it kept in memory by the provider.
func TestNothingIsObservedAfterClose(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, r *rig) {
		tel, err := otelredlock.New(otelredlock.WithMeterProvider(r.meter), otelredlock.WithClass(classOf))
		require.NoError(t, err)
		other := redlocktest.New(t, 3, redlock.WithTracer(tel)).Redlock
		require.NoError(t, tel.Observe(other))
		for _, r := range []*redlock.Redlock{r.Redlock, other} {
			testkit.TryLock(t, r, []string{"x"}, ttl)
		}
		assert.InDelta(t, 2, r.metrics()["redlock.lock.held{}"], 0)
		assert.InDelta(t, 2, r.metrics()["redlock.lock.attempts{redlock.resource.class=x}"], 0)
		require.NoError(t, r.Close(t.Context()))
		assert.Contains(t, r.metrics(), "redlock.lock.held{}", "the last figures can be flushed")
		require.NoError(t, r.tel.Close())
		assert.InDelta(t, 1, r.metrics()["redlock.lock.held{}"], 0)
		require.NoError(t, tel.Close())
		for name := range r.metrics() {
			assert.Contains(t, name, ".duration", "only what was measured before")
		}
	})
}
