package redlock_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

type ctxKey struct{}

func TestEventsTellWhatHappened(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		var inCtx any
		r := newRedlock(t, c, redlock.WithHook(func(ctx context.Context, e redlock.Event) {
			inCtx = ctx.Value(ctxKey{})
			assert.NoError(t, ctx.Err()) //nolint:testifylint // Not the test's goroutine.
			rec.Hook(ctx, e)
		}))
		warm(t, r)
		rec.Take()
		require.NoError(t, c.Nodes[2].Slow(10*time.Millisecond, 10*time.Millisecond))
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), ctxKey{}, "v"))
		l, err := r.TryLock(ctx, []string{"b", "a"}, ttl)
		require.NoError(t, err)
		cancel()
		time.Sleep(time.Second)
		events := rec.Take()
		require.Len(t, events, 2)
		assert.Equal(t, "v", inCtx)
		decided, settled := events[0], events[1]
		assert.Equal(t, redlock.EventDecided, decided.Kind)
		assert.Equal(t, redlock.EventSettled, settled.Kind)
		for _, e := range events {
			assert.Equal(t, redlock.OpLock, e.Op)
			assert.Equal(t, []string{"a", "b"}, e.Resources)
			assert.Equal(t, 1, e.Attempt)
			assert.Equal(t, l.Until(), e.Until)
			require.NoError(t, e.Err)
			require.Len(t, e.Votes, 3)
		}
		assert.Equal(t, redlock.ErrPending, decided.Votes[2].Err)
		require.NoError(t, settled.Votes[2].Err)
		assert.Equal(t, 20*time.Millisecond, settled.Votes[2].Took)

		_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, l.Extend(t.Context(), ttl))
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(time.Second)
		events = rec.Take()
		require.Len(t, events, 6)
		require.ErrorIs(t, events[0].Err, redlock.ErrTaken)
		assert.Zero(t, events[0].Until)
		for i, op := range []redlock.Op{redlock.OpLock, redlock.OpLock, redlock.OpExtend, redlock.OpExtend, redlock.OpUnlock, redlock.OpUnlock} {
			assert.Contains(t, []redlock.Op{op, redlock.OpLock, redlock.OpExtend}, events[i].Op)
		}

		require.NoError(t, c.Nodes[1].Stop())
		time.Sleep(10 * time.Second)
		require.NoError(t, c.Nodes[1].Restart(true))
		time.Sleep(10 * time.Second)
		events = rec.Take()
		require.Len(t, events, 1, "one loss is one event")
		assert.Equal(t, redlock.EventNodeDown, events[0].Kind)
		assert.Equal(t, c.Nodes[1].Name(), events[0].Node)
		require.Error(t, events[0].Err)
	})
}

func TestEventOfAnExtensionThatCameTooLateSaysSo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newRedlock(t, c, redlock.WithHook(rec.Hook))
		warm(t, r)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Second)
		require.NoError(t, err)
		time.Sleep(time.Until(l.Until()) - 5*time.Millisecond)
		rec.Take()
		require.NoError(t, c.Slow(4*time.Millisecond, 4*time.Millisecond))
		require.ErrorIs(t, l.Extend(t.Context(), time.Minute), redlock.ErrExpired)
		time.Sleep(20 * time.Millisecond)
		events := rec.Take()
		require.Len(t, events, 2)
		for _, e := range events {
			assert.Equal(t, redlock.OpExtend, e.Op)
			assert.Equal(t, redlock.ErrExpired, e.Err)
		}
	})
}

func TestEventOfAShortExtensionHasTheEndOfTheLock(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newRedlock(t, c, redlock.WithHook(rec.Hook))
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		synctest.Wait()
		rec.Take()
		require.NoError(t, l.Extend(t.Context(), time.Second))
		synctest.Wait()
		for _, e := range rec.Take() {
			assert.Equal(t, l.Until(), e.Until, e.Kind)
		}
	})
}

func TestEventHookThatIsSlowDropsEventsAndDelaysNothing(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		block := make(chan struct{})
		r := newRedlock(t, c, redlock.WithHook(func(context.Context, redlock.Event) { <-block }))
		start := time.Now()
		for range rounds(2000, 700) {
			cycle(t, r, "a", ttl)
		}
		assert.Zero(t, time.Since(start))
		assert.Positive(t, r.Stats().EventsDropped)
		close(block)
	})
}

func TestEventHookMayUseTheRedlock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var r *redlock.Redlock
		used := false
		r = newRedlock(t, c, redlock.WithHook(func(ctx context.Context, e redlock.Event) {
			if e.Kind == redlock.EventDecided && !used {
				used = true
				l, err := r.TryLock(ctx, []string{"from the hook"}, ttl)
				assert.NoError(t, err)
				assert.NoError(t, l.Unlock(ctx))
			}
		}))
		warm(t, r)
		assert.True(t, used)
	})
}

func TestEventHookMayEndItsGoroutine(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		var heard atomic.Int64
		r, err := redlock.New(nodesOf(c), redlock.WithHook(func(context.Context, redlock.Event) {
			heard.Add(1)
			runtime.Goexit()
		}))
		require.NoError(t, err)
		warm(t, r)
		require.NoError(t, r.Close(t.Context()))
		assert.Equal(t, int64(7), heard.Load())
	})
}

func TestEventsThatWaitAreDeliveredByClose(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		events := 0
		r := newRedlock(t, c, redlock.WithHook(func(context.Context, redlock.Event) {
			time.Sleep(time.Second)
			events++
		}))
		cycle(t, r, "a", ttl)
		require.NoError(t, r.Close(t.Context()))
		assert.Equal(t, 7, events) // up; decided and settled of the lock and the release; acquired, released
		r2 := newRedlock(t, c, redlock.WithHook(func(context.Context, redlock.Event) { time.Sleep(time.Minute) }))
		_, err := r2.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, r2.Close(ctx), context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start))
		time.Sleep(time.Hour) // Until the hook is through.
	})
}
