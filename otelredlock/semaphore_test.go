package otelredlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"

	"github.com/seed6c881748/redlock/otelredlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Permits of a semaphore that was named are told from other locks, whatever those are named.
func TestSemaphores(t *testing.T) {
	named := otelredlock.WithSemaphores("img:resize", "api", "api")
	inBubble(t, setup{tel: []otelredlock.Option{named}}, func(t *testing.T, r *rig) {
		s, err := semaphore.New(r.Redlock, "img:resize", 3, ttl)
		require.NoError(t, err)
		slots := map[int64]bool{}
		for _, acquire := range []func(context.Context) (*semaphore.Permit, error){s.Acquire, s.TryAcquire} {
			p, err := acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, p.Extend(t.Context(), ttl))
			require.NoError(t, p.Unlock(t.Context()))
			slots[int64(p.Slot)] = true
		}
		require.NoError(t, s.Do(t.Context(), func(_ context.Context, p *semaphore.Permit) error {
			slots[int64(p.Slot)] = true
			return nil
		}))
		spans := r.ended()
		assert.Subset(t, names(spans), []string{"redlock lock", "redlock do", "redlock extend", "redlock unlock"})
		for _, span := range spans {
			attrs := values(span.Attributes())
			assert.Equal(t, "img:resize", attrs["redlock.semaphore"])
			assert.Equal(t, "img", attrs["redlock.resource.class"])
			assert.Contains(t, slots, attrs["redlock.slot"])
			assert.NotContains(t, attrs, "redlock.resources")
		}
		m := r.metrics()
		const of = "redlock.resource.class=img,redlock.semaphore=img:resize}"
		assert.InDelta(t, 3, m["redlock.lock.acquire.duration{"+of], 0)
		assert.InDelta(t, 3, m["redlock.lock.attempts{"+of], 0)
		assert.InDelta(t, 2, m["redlock.lock.extend.duration{"+of], 0)
		assert.InDelta(t, 3, m["redlock.hold.ended{redlock.hold.end=released,"+of], 0)
		none, ok := m["redlock.hold.ended{redlock.hold.end=lost,redlock.resource.class=api,redlock.semaphore=api}"]
		assert.True(t, ok && none == 0, "from the beginning")
		for name := range m {
			assert.NotContains(t, name, "redlock.slot")
			assert.NotContains(t, name, "resize#")
		}

		for resource, slot := range map[string]int64{"img:resize#0": 0, "api#3": 3, "img:resize#255": 255} {
			testkit.Cycle(t, r.Redlock, resource, ttl)
			for _, span := range r.ended() {
				assert.Equal(t, slot, values(span.Attributes())["redlock.slot"], resource)
			}
		}

		// None of these is a slot, or known to be one.
		for _, resources := range [][]string{{"img:resize"}, {"img:resize#03"}, {"img:resize#256"}, {"img:resize#x"}, {"other#1"}, {"img:resize#0", "x"}} {
			l := testkit.TryLock(t, r.Redlock, resources, ttl)
			require.NoError(t, l.Unlock(t.Context()))
			for _, span := range r.ended() {
				assert.NotContains(t, values(span.Attributes()), "redlock.semaphore", "%q", resources)
				assert.NotContains(t, values(span.Attributes()), "redlock.slot", "%q", resources)
			}
		}
	})
}

// An Acquire that waits is one lock that is waited for on each slot. That no slot became free is no failure.
func TestSemaphoreThatIsWaitedFor(t *testing.T) {
	inBubble(t, setup{tel: []otelredlock.Option{otelredlock.WithSemaphores("jobs")}}, func(t *testing.T, r *rig) {
		s, err := semaphore.New(r.Redlock, "jobs", 2, ttl)
		require.NoError(t, err)
		var held [2]*semaphore.Permit
		for i := range held {
			held[i], err = s.Acquire(t.Context())
			require.NoError(t, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for _, p := range held {
			require.NoError(t, p.Unlock(t.Context()))
		}
		for _, span := range r.ended() {
			assert.NotEqual(t, codes.Error, span.Status().Code)
		}
		waited := r.metrics()["redlock.lock.acquire.duration{error.type=taken,redlock.resource.class=jobs,redlock.semaphore=jobs}"]
		assert.GreaterOrEqual(t, waited, 2.0)
	})
}
