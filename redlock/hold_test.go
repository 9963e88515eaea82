package redlock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// kept locks "a" for ttl and keeps it.
func kept(t *testing.T, r *Redlock, ttl time.Duration, opts ...Option) (*Lock, context.Context) {
	t.Helper()
	l, err := r.TryLock(t.Context(), []string{"a"}, ttl, opts...)
	require.NoError(t, err)
	return l, l.KeepAlive(t.Context())
}

// requireReleased checks that no node has a lock, once all that is on its way has
// arrived.
func requireReleased(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	synctest.Wait()
	requireNoKeys(t, c)
}

// requireEnded checks that ctx is done because of cause.
func requireEnded(t *testing.T, ctx context.Context, cause error) {
	t.Helper()
	synctest.Wait()
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.Equal(t, cause, context.Cause(ctx))
}

func TestKeepAliveExtendsUntilUnlock(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, ctx := kept(t, r, 2*time.Second)
		for range 100 {
			time.Sleep(time.Second)
			require.NoError(t, ctx.Err())
			require.NoError(t, l.Err())
			require.Greater(t, time.Until(l.Until()), 2*time.Second*6/10)
			require.Equal(t, 5, holders(t, c, l))
		}
		s := r.Stats()
		assert.InDelta(t, 100*3/2, s.Extended, 12, "about every third of the ttl")
		assert.Equal(t, 1, s.Kept)
		require.NoError(t, l.Unlock(t.Context()))
		requireEnded(t, ctx, context.Canceled)
		requireReleased(t, c)
		time.Sleep(time.Hour)
		requireReleased(t, c)
		assert.Equal(t, s.Extended, r.Stats().Extended)
		assert.Zero(t, r.Stats().Kept)
	})
}

func TestTheContextEndsAtUntil(t *testing.T) {
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
				r := newRedlock(t, c, WithHook(rec.hook))
				l, ctx := kept(t, r, 2*time.Second, WithNodeTimeout(time.Minute)) // An extension is on its way at the end.
				time.Sleep(3 * time.Second)
				for _, n := range c.Nodes[:3] {
					require.NoError(t, fault(n))
				}
				<-ctx.Done()
				assert.Zero(t, time.Since(l.Until()), "neither earlier nor later")
				requireEnded(t, ctx, ErrExpired)
				require.ErrorIs(t, l.Err(), ErrExpired)
				for _, n := range c.Nodes[:3] {
					_ = n.Resume()
				}
			})
		})
	}
}

func TestTheWallClockEndsTheContextToo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, ctx := kept(t, r, time.Minute)
		time.Sleep(time.Second + 7*time.Millisecond)
		WallOffset(r).Store(int64(time.Hour)) // The machine slept.
		woke := time.Now()
		<-ctx.Done()
		assert.LessOrEqual(t, time.Since(woke), 100*time.Millisecond)
		requireEnded(t, ctx, ErrExpired)
		require.ErrorIs(t, l.Err(), ErrExpired)
		require.ErrorIs(t, l.Extend(t.Context(), time.Minute), ErrExpired)
		require.ErrorIs(t, l.Unlock(t.Context()), ErrExpired, "though the keys were still there")
	})
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, ctx := kept(t, r, time.Minute)
		WallOffset(r).Store(int64(-time.Hour)) // It was set back: the other clock goes on.
		time.Sleep(10 * time.Minute)
		require.NoError(t, ctx.Err())
		for _, n := range c.Nodes {
			require.NoError(t, n.Stop())
		}
		<-ctx.Done()
		assert.Zero(t, time.Since(l.Until()))
		WallOffset(r).Store(int64(time.Hour))
		l2, ctx2 := (*Lock)(nil), context.Context(nil)
		for _, n := range c.Nodes {
			require.NoError(t, n.Restart(false))
		}
		time.Sleep(5 * time.Second)
		l2, ctx2 = kept(t, r, time.Minute)
		WallOffset(r).Add(int64(time.Second)) // Not enough.
		time.Sleep(time.Minute)
		require.NoError(t, ctx2.Err())
		require.NoError(t, l2.Unlock(t.Context()))
	})
}

func TestAStolenLockEndsTheContextBeforeUntil(t *testing.T) {
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
				requireEnded(t, ctx, ErrLost)
				require.ErrorIs(t, l.Err(), ErrLost)
				assert.Zero(t, r.Stats().Kept)
				until := l.Until()
				time.Sleep(time.Minute)
				assert.Equal(t, until, l.Until())
			})
		})
	}
}

func TestAnExtensionByHandFindsTheLossForTheContextToo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		l, ctx := kept(t, newRedlock(t, c), time.Hour)
		for _, n := range c.Nodes {
			require.NoError(t, n.Del("a"))
		}
		require.ErrorIs(t, l.Extend(t.Context(), time.Hour), ErrLost)
		requireEnded(t, ctx, ErrLost)
	})
}

func TestKeepAliveOnWhatHasEnded(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		lock := func() *Lock {
			l, err := r.TryLock(t.Context(), []string{"a"}, time.Second)
			require.NoError(t, err)
			return l
		}
		l := lock()
		require.NoError(t, l.Unlock(t.Context()))
		requireEnded(t, l.KeepAlive(t.Context()), ErrLost)

		l = lock()
		done, cancel := context.WithCancelCause(t.Context())
		cancel(assert.AnError)
		requireEnded(t, l.KeepAlive(done), assert.AnError)
		assert.Zero(t, r.Stats().Kept)
		time.Sleep(2 * time.Second)
		requireEnded(t, l.KeepAlive(t.Context()), ErrExpired)

		l = lock()
		for _, n := range c.Nodes {
			require.NoError(t, n.Del("a"))
		}
		require.ErrorIs(t, l.Extend(t.Context(), time.Second), ErrLost)
		requireEnded(t, l.KeepAlive(t.Context()), ErrLost)

		l = lock()
		require.NoError(t, r.Close(t.Context()))
		requireEnded(t, l.KeepAlive(t.Context()), ErrClosed)
	})
}

func TestKeepAliveTwice(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Second)
		require.NoError(t, err)
		first, cancel := context.WithCancelCause(t.Context())
		a, b := l.KeepAlive(first), l.KeepAlive(t.Context())
		cancel(assert.AnError)
		requireEnded(t, a, assert.AnError)
		time.Sleep(time.Minute)
		require.NoError(t, b.Err(), "the other one still keeps it")
		assert.InDelta(t, 60*3, r.Stats().Extended, 15, "once for both")
		c3 := l.KeepAlive(t.Context())
		require.NoError(t, l.Unlock(t.Context()))
		requireEnded(t, b, context.Canceled)
		requireEnded(t, c3, context.Canceled)
	})
}

func TestTheEndOfTheCallersContextEndsTheExtensionsOnly(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, 10*time.Second)
		require.NoError(t, err)
		parent, cancel := context.WithCancel(t.Context())
		ctx := l.KeepAlive(parent)
		time.Sleep(time.Minute)
		cancel()
		requireEnded(t, ctx, context.Canceled)
		extended := r.Stats().Extended
		time.Sleep(5 * time.Second)
		require.NoError(t, l.Err(), "it is still held")
		assert.Equal(t, 3, holders(t, c, l))
		again := l.KeepAlive(t.Context())
		time.Sleep(time.Minute)
		require.NoError(t, again.Err())
		assert.Greater(t, r.Stats().Extended, extended)
		parent2, cancel2 := context.WithCancel(t.Context())
		_ = l.KeepAlive(parent2)
		require.NoError(t, l.Unlock(t.Context()))
		cancel2()
		requireReleased(t, c)
	})
}

func TestMaxHold(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		start := time.Now()
		l, ctx := kept(t, r, 10*time.Second, WithMaxHold(25*time.Second))
		<-ctx.Done()
		assert.Equal(t, 25*time.Second, time.Since(start))
		requireEnded(t, ctx, ErrMaxHold)
		require.NoError(t, l.Err(), "time to bring the work to an end")
		requireEnded(t, l.KeepAlive(t.Context()), ErrMaxHold)
		require.NoError(t, l.Unlock(t.Context()))

		l, ctx = kept(t, r, 10*time.Second, WithMaxHold(time.Second)) // Shorter than the ttl.
		<-ctx.Done()
		requireEnded(t, ctx, ErrMaxHold)
		assert.Equal(t, 1, r.Stats().Kept, "Close waits for its release")
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, l.Err(), ErrExpired)
		assert.Zero(t, r.Stats().Kept)
	})
}

func TestMinHold(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		start := time.Now()
		l, ctx := kept(t, r, 10*time.Second, WithMinHold(8*time.Second))
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(t.Context()))
		requireEnded(t, ctx, context.Canceled)
		require.ErrorIs(t, l.Err(), ErrLost)
		require.NoError(t, l.Unlock(t.Context()))
		synctest.Wait()
		assert.Equal(t, 3, holders(t, c, l))
		_, err := r.TryLock(t.Context(), []string{"a"}, time.Second)
		require.ErrorIs(t, err, ErrTaken)
		time.Sleep(time.Until(start.Add(8*time.Second - time.Millisecond)))
		assert.Equal(t, 3, holders(t, c, l))
		time.Sleep(time.Millisecond)
		requireReleased(t, c)

		// Over already: released at once.
		l, ctx = kept(t, r, 10*time.Second, WithMinHold(8*time.Second))
		time.Sleep(time.Minute)
		require.NoError(t, ctx.Err())
		require.NoError(t, l.Unlock(t.Context()))
		requireReleased(t, c)

		// A failed attempt leaves nothing, min hold or not.
		require.NoError(t, c.Nodes[0].Set("a", "x", time.Second))
		require.NoError(t, c.Nodes[1].Set("a", "x", time.Second))
		_, err = r.TryLock(t.Context(), []string{"a"}, 10*time.Second, WithMinHold(8*time.Second))
		require.ErrorIs(t, err, ErrTaken)
		time.Sleep(time.Second)
		requireReleased(t, c)
		_, err = r.TryLock(t.Context(), []string{"a"}, time.Second, WithMinHold(time.Second+1))
		require.EqualError(t, err, "redlock: min hold 1.000000001s: must not exceed the ttl 1s")
	})
}

// The clean-up on a new connection leaves the keys, too, and no longer.
func TestMinHoldOutlivesABrokenConnection(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		start := time.Now()
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute, WithMinHold(30*time.Second))
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		for _, n := range c.Nodes {
			require.NoError(t, n.Hang())
		}
		require.ErrorIs(t, l.Unlock(t.Context()), ErrNoQuorum)
		for _, n := range c.Nodes {
			n.Proxy().Kill()
			require.NoError(t, n.Resume())
		}
		time.Sleep(5 * time.Second)
		assert.Equal(t, 3, holders(t, c, l))
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(time.Until(start.Add(30 * time.Second)))
		requireReleased(t, c)
	})
}

// An extension that passed its checks just before the release must not give the
// keys that are left a new life.
func TestAnExtensionDoesNotLengthenAMinHold(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		start := time.Now()
		l, err := r.TryLock(t.Context(), []string{"a"}, 10*time.Second, WithMinHold(5*time.Second))
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, l.Unlock(t.Context()))
		rd := r.newRound(t.Context(), OpExtend, l.claim, extendCommand(l.claim.keys, l.claim.token, time.Hour, nil), node.Ask, decideExtend, 0)
		rd.ask(time.Now(), time.Second)
		<-rd.decided
		time.Sleep(time.Until(start.Add(5 * time.Second)))
		synctest.Wait()
		requireNoKeys(t, c)
	})
}

func TestCloseEndsHoldsAndWaitsForTheirRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, ctx := kept(t, r, time.Minute)
		time.AfterFunc(5*time.Second, func() {
			<-ctx.Done()
			assert.Equal(t, ErrClosed, context.Cause(ctx))
			held := l.Err()
			time.Sleep(10 * time.Second) // Winds up its work.
			released := l.Unlock(context.WithoutCancel(ctx))
			if held != nil || released != nil {
				t.Error("it is never released by Close:", held, released)
			}
		})
		start := time.Now()
		deadline, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		require.NoError(t, r.Close(deadline))
		assert.Equal(t, 15*time.Second, time.Since(start))
		requireReleased(t, c)
	})
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) { // Nobody unlocks: until Until.
		r := newRedlock(t, c)
		l, ctx := kept(t, r, 10*time.Second)
		require.NoError(t, r.Close(context.Background()))
		requireEnded(t, ctx, ErrClosed)
		assert.Zero(t, time.Since(l.Until()))
	})
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) { // Its context ends first.
		r := newRedlock(t, c)
		_, _ = kept(t, r, time.Hour)
		deadline, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.Close(deadline), context.DeadlineExceeded)
	})
}

func TestAHoldAtRiskIsAnEvent(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newRedlock(t, c, WithHook(rec.hook))
		risks := func() (n int) {
			for _, e := range rec.take() {
				if e.Kind == EventHoldAtRisk {
					n++
					require.ErrorIs(t, e.Err, ErrNoQuorum)
					assert.Equal(t, []string{"a"}, e.Resources)
					left := e.Until.Sub(e.Time)
					assert.Positive(t, left)
					assert.Less(t, left, 5*time.Second)
				}
			}
			return n
		}
		l, ctx := kept(t, r, 10*time.Second)
		time.Sleep(time.Minute)
		assert.Zero(t, risks())
		for range 2 {
			for _, n := range c.Nodes[:2] {
				require.NoError(t, n.SetError("LOADING x"))
			}
			time.Sleep(time.Until(l.Until().Add(-2 * time.Second)))
			assert.Equal(t, 1, risks())
			for _, n := range c.Nodes[:2] {
				require.NoError(t, n.SetError(""))
			}
			time.Sleep(time.Minute)
			require.NoError(t, ctx.Err(), "it was extended again in time")
			assert.Zero(t, risks())
		}
		require.NoError(t, l.Unlock(t.Context()))
	})
}

func TestNodesThatLostTheKeyAreRepaired(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a", "b"}, 10*time.Second)
		require.NoError(t, err)
		ctx := l.KeepAlive(t.Context())
		time.Sleep(time.Second)
		// One node after the other loses its data: more than a quorum in all.
		for i, n := range c.Nodes {
			require.NoError(t, n.Stop())
			require.NoError(t, n.Restart(false))
			if i%2 == 0 { // A part of it only.
				require.NoError(t, n.Set("a", l.Token(), time.Minute))
			}
			time.Sleep(10 * time.Second)
			require.Equal(t, 5, holders(t, c, l))
			require.NoError(t, ctx.Err())
		}
		assert.GreaterOrEqual(t, r.Stats().Repaired, int64(5))
		// What is another's is left alone.
		require.NoError(t, c.Nodes[0].Set("b", "x", time.Hour))
		require.NoError(t, c.Nodes[1].Del("a"))
		require.NoError(t, c.Nodes[1].Set("b", "x", time.Hour))
		time.Sleep(10 * time.Second)
		assert.Equal(t, "x", keys(t, c.Nodes[0])["b"].Value)
		assert.NotContains(t, keys(t, c.Nodes[1]), "a")
		require.NoError(t, ctx.Err())
		require.NoError(t, l.Unlock(t.Context()))
		synctest.Wait()
		require.NoError(t, c.Nodes[0].Del("b"))
		require.NoError(t, c.Nodes[1].Del("b"))
		requireReleased(t, c)
	})
}

func TestALockThatHasEndedIsNotRepaired(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) { // It has lapsed.
		r := newRedlock(t, c, WithNodeTimeout(10*time.Second))
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Second)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.Nodes[2].Del("a"))
		require.NoError(t, c.Nodes[2].Hang())
		require.NoError(t, l.Extend(t.Context(), time.Second))
		time.Sleep(2 * time.Second)
		require.NoError(t, c.Nodes[2].Resume())
		time.Sleep(5 * time.Second)
		requireReleased(t, c)
		assert.Zero(t, r.Stats().Repaired)
	})
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Second)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.Nodes[2].Del("a"))
		require.NoError(t, c.Nodes[2].Hang()) // Its answer comes when the lock is over.
		require.NoError(t, l.Extend(t.Context(), time.Second))
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, c.Nodes[2].Resume())
		time.Sleep(5 * time.Second)
		requireReleased(t, c)
		assert.Zero(t, r.Stats().Repaired)
	})
}

func TestDo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		do := func(fn func(ctx context.Context, l *Lock) error, opts ...Option) error {
			return r.Do(t.Context(), []string{"a"}, time.Second, fn, opts...)
		}
		var inside *Lock
		require.NoError(t, do(func(ctx context.Context, l *Lock) error {
			inside = l
			time.Sleep(time.Minute)
			got, ok := FromContext(ctx)
			assert.True(t, ok)
			assert.Same(t, l, got)
			assert.ErrorIs(t, r.Do(ctx, []string{"a"}, time.Second, nil), ErrNilFunc)
			_, err := r.TryLock(ctx, []string{"a"}, time.Second)
			assert.ErrorIs(t, err, ErrTaken)
			return ctx.Err()
		}))
		require.ErrorIs(t, inside.Err(), ErrLost)
		requireReleased(t, c)
		require.Equal(t, assert.AnError, do(func(context.Context, *Lock) error { return assert.AnError }))
		require.PanicsWithValue(t, "boom", func() { _ = do(func(context.Context, *Lock) error { panic("boom") }) })
		requireReleased(t, c)
		require.NoError(t, do(func(ctx context.Context, l *Lock) error { return l.Unlock(ctx) }))

		// Lost in the middle, though fn did not notice.
		err := do(func(ctx context.Context, _ *Lock) error {
			for _, n := range c.Nodes {
				require.NoError(t, n.Del("a"))
			}
			<-ctx.Done()
			assert.Equal(t, ErrLost, context.Cause(ctx))
			return nil
		})
		require.ErrorIs(t, err, ErrLost)
		require.NotErrorIs(t, err, ErrExpired)
		err = do(func(context.Context, *Lock) error { // Shown by the release only.
			for _, n := range c.Nodes {
				require.NoError(t, n.Del("a"))
			}
			return assert.AnError
		})
		require.ErrorIs(t, err, ErrLost)
		require.ErrorIs(t, err, assert.AnError)
		err = do(func(ctx context.Context, _ *Lock) error {
			for _, n := range c.Nodes {
				require.NoError(t, n.SetError("LOADING x"))
			}
			<-ctx.Done()
			for _, n := range c.Nodes {
				require.NoError(t, n.SetError(""))
			}
			return ctx.Err()
		})
		require.ErrorIs(t, err, ErrExpired)
		require.ErrorIs(t, err, context.Canceled)

		err = do(func(ctx context.Context, _ *Lock) error { <-ctx.Done(); return ctx.Err() }, WithMaxHold(3*time.Second))
		require.ErrorIs(t, err, ErrMaxHold)
		require.NoError(t, do(func(ctx context.Context, _ *Lock) error { <-ctx.Done(); return nil }, WithMaxHold(3*time.Second)))

		require.NoError(t, c.Nodes[0].Set("a", "x", time.Hour))
		require.NoError(t, c.Nodes[1].Set("a", "x", time.Hour))
		err = do(func(context.Context, *Lock) error { t.Error("called without the lock"); return nil }, WithRetryCount(0))
		require.ErrorIs(t, err, ErrTaken)
	})
}

func TestDoAndClose(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		result := make(chan error, 1)
		go func() {
			result <- r.Do(context.Background(), []string{"a"}, time.Minute, func(ctx context.Context, _ *Lock) error {
				<-ctx.Done()
				time.Sleep(5 * time.Second)
				return ctx.Err()
			})
		}()
		synctest.Wait()
		start := time.Now()
		require.NoError(t, r.Close(t.Context()))
		assert.Equal(t, 5*time.Second, time.Since(start))
		err := <-result
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, err, context.Canceled)
		requireReleased(t, c)
		require.ErrorIs(t, r.Do(t.Context(), []string{"a"}, time.Minute, func(context.Context, *Lock) error { return nil }), ErrClosed)
	})
}

func TestDoValue(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		n, err := DoValue(t.Context(), r, []string{"a"}, time.Second, func(context.Context, *Lock) (int, error) { return 42, assert.AnError })
		assert.Equal(t, 42, n)
		require.ErrorIs(t, err, assert.AnError)
	})
}

func TestDoWithADoneContext(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		err := r.Do(ctx, []string{"a"}, time.Second, func(ctx context.Context, _ *Lock) error {
			cancel()
			<-ctx.Done()
			return fmt.Errorf("stopped: %w", ctx.Err())
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrLost)
		requireReleased(t, c)
		err = r.Do(ctx, []string{"a"}, time.Second, func(context.Context, *Lock) error { return errors.New("called") })
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestFromContextOfNothing(t *testing.T) {
	_, ok := FromContext(t.Context())
	assert.False(t, ok)
}

// A failed extension is repeated soon, not a third of the ttl later.
func TestAFailedExtensionIsRepeatedSoon(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, ctx := kept(t, r, 10*time.Second)
		time.Sleep(2500 * time.Millisecond)
		for _, n := range c.Nodes {
			require.NoError(t, n.SetError("LOADING x"))
		}
		time.Sleep(6 * time.Second)
		for _, n := range c.Nodes {
			require.NoError(t, n.SetError(""))
		}
		time.Sleep(time.Minute)
		require.NoError(t, ctx.Err())
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// A release that the server takes late leaves the keys for what is left then.
func TestAMinHoldIsNotLongerForALateRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		start := time.Now()
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute, WithMinHold(5*time.Second))
		require.NoError(t, err)
		synctest.Wait()
		time.Sleep(4200 * time.Millisecond)
		for _, n := range c.Nodes {
			require.NoError(t, n.SetError("BUSY x"))
		}
		require.ErrorIs(t, l.Unlock(t.Context()), ErrNoQuorum)
		time.Sleep(200 * time.Millisecond)
		for _, n := range c.Nodes {
			require.NoError(t, n.SetError(""))
		}
		time.Sleep(time.Until(start.Add(5*time.Second - time.Millisecond)))
		assert.Equal(t, 3, holders(t, c, l))
		time.Sleep(time.Millisecond)
		requireReleased(t, c)
	})
}

// An expiry that an extension or the release is the first to see has its cause.
func TestWhoeverSeesTheExpiryFirstSaysSo(t *testing.T) {
	for name, see := range map[string]func(l *Lock){
		"extension": func(l *Lock) { _ = l.Extend(context.Background(), time.Minute) },
		"release":   func(l *Lock) { _ = l.Unlock(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				r := newRedlock(t, c)
				l, ctx := kept(t, r, time.Minute)
				WallOffset(r).Store(int64(time.Hour))
				see(l)
				requireEnded(t, ctx, ErrExpired)
			})
		})
	}
}

// A jump that leaves a part of the validity brings the next extension forward;
// slewing does not.
func TestAJumpOfTheWallClockBringsTheExtensionForward(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, ctx := kept(t, r, 30*time.Second)
		time.Sleep(4 * time.Second) // The next extension is due after 8.9 s at the earliest.
		extended := r.Stats().Extended
		for range 40 { // 500 ppm, and more.
			WallOffset(r).Add(int64(2 * time.Millisecond))
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, extended, r.Stats().Extended)
		WallOffset(r).Add(int64(15 * time.Second))
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, extended+1, r.Stats().Extended)
		time.Sleep(time.Minute)
		require.NoError(t, ctx.Err())
		require.NoError(t, l.Unlock(t.Context()))
	})
}
