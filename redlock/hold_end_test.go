package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/testkit"
	"github.com/seed6c881748/redlock/redlock"
)

func TestHoldEndsItsContextAtUntil(t *testing.T) {
	faults := map[string]func(n *testcluster.Node) error{
		"hung":       (*testcluster.Node).Hang,
		"dead":       (*testcluster.Node).Stop,
		"black hole": func(n *testcluster.Node) error { n.Proxy().BlackHole(true); return nil },
		"loading":    func(n *testcluster.Node) error { return n.SetError("LOADING x") },
		"slow":       func(n *testcluster.Node) error { return n.Slow(10*time.Second, 10*time.Second) },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
				var rec recorder
				r := newRedlock(t, c, redlock.WithHook(rec.Hook))
				l, ctx := kept(t, r, 2*time.Second, redlock.WithNodeTimeout(time.Minute)) // An extension is on its way at the end.
				time.Sleep(3 * time.Second)
				for _, n := range c.Nodes[:3] {
					require.NoError(t, fault(n))
				}
				<-ctx.Done()
				assert.Zero(t, time.Since(l.Until()), "neither earlier nor later")
				requireEnded(t, ctx, redlock.ErrExpired)
				require.ErrorIs(t, l.Err(), redlock.ErrExpired)
				for _, n := range c.Nodes[:3] {
					_ = n.Resume()
				}
			})
		})
	}
}

func TestHoldEndsItsContextByTheWallClockToo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, ctx := kept(t, r, time.Minute)
		time.Sleep(time.Second + 7*time.Millisecond)
		testkit.WallOffset(r).Store(int64(time.Hour)) // The machine slept.
		woke := time.Now()
		<-ctx.Done()
		assert.LessOrEqual(t, time.Since(woke), 100*time.Millisecond)
		requireEnded(t, ctx, redlock.ErrExpired)
		require.ErrorIs(t, l.Err(), redlock.ErrExpired)
		require.ErrorIs(t, l.Extend(t.Context(), time.Minute), redlock.ErrExpired)
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrExpired, "though the keys were still there")
	})
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, ctx := kept(t, r, time.Minute)
		testkit.WallOffset(r).Store(int64(-time.Hour)) // It was set back: the other clock goes on.
		time.Sleep(10 * time.Minute)
		require.NoError(t, ctx.Err())
		require.NoError(t, c.Stop())
		<-ctx.Done()
		assert.Zero(t, time.Since(l.Until()))
		testkit.WallOffset(r).Store(int64(time.Hour))
		l2, ctx2 := (*redlock.Lock)(nil), context.Context(nil)
		require.NoError(t, c.Restart(false))
		time.Sleep(5 * time.Second)
		l2, ctx2 = kept(t, r, time.Minute)
		testkit.WallOffset(r).Add(int64(time.Second)) // Not enough.
		time.Sleep(time.Minute)
		require.NoError(t, ctx2.Err())
		require.NoError(t, l2.Unlock(t.Context()))
	})
}

// Of a wall clock that was set back, only what it gains from then on tells of a sleep.
func TestHoldEndsItsContextAfterASuspendThoughTheWallClockWasSetBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, ctx := kept(t, r, 20*time.Second)
		testkit.WallOffset(r).Store(int64(-30 * time.Second))
		time.Sleep(200 * time.Millisecond)
		require.NoError(t, ctx.Err())
		testkit.WallOffset(r).Add(int64(25 * time.Second)) // The machine slept.
		time.Sleep(100 * time.Millisecond)
		requireEnded(t, ctx, redlock.ErrExpired)
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrExpired)
	})
}

func TestHoldOfAStolenLockEndsItsContextBeforeUntil(t *testing.T) {
	for name, steal := range map[string]func(n *testcluster.Node) error{
		"gone":      func(n *testcluster.Node) error { return n.Del("a") },
		"another's": func(n *testcluster.Node) error { return n.Set("a", "thief", time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
				r := newRedlock(t, c)
				l, ctx := kept(t, r, 30*time.Second)
				time.Sleep(time.Minute)
				for _, n := range c.Nodes[:3] {
					require.NoError(t, steal(n))
				}
				stolen := time.Now()
				<-ctx.Done()
				assert.LessOrEqual(t, time.Since(stolen), 10*time.Second+time.Millisecond, "with the next extension")
				requireEnded(t, ctx, redlock.ErrLost)
				require.ErrorIs(t, l.Err(), redlock.ErrLost)
				assert.Zero(t, r.Stats().Kept)
				assert.Zero(t, r.Stats().Held)
				assert.Empty(t, r.HeldLocks())
				until := l.Until()
				time.Sleep(time.Minute)
				assert.Equal(t, until, l.Until())
			})
		})
	}
}

func TestHoldEndsItsContextWhenAnExtensionByHandFindsTheLoss(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		l, ctx := kept(t, newRedlock(t, c), time.Hour)
		require.NoError(t, c.Del("a"))
		require.ErrorIs(t, l.Extend(t.Context(), time.Hour), redlock.ErrLost)
		requireEnded(t, ctx, redlock.ErrLost)
	})
}

// An expiry that an extension or the release is the first to see has its cause.
func TestHoldExpiryIsToldByWhoeverSeesItFirst(t *testing.T) {
	for name, see := range map[string]func(l *redlock.Lock){
		"extension": func(l *redlock.Lock) { _ = l.Extend(context.Background(), time.Minute) },
		"release":   func(l *redlock.Lock) { _ = l.Unlock(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				r := newRedlock(t, c)
				l, ctx := kept(t, r, time.Minute)
				testkit.WallOffset(r).Store(int64(time.Hour))
				see(l)
				requireEnded(t, ctx, redlock.ErrExpired)
			})
		})
	}
}
