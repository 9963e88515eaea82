package redlock

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// Two extensions that are not settled yet both know of a missing key. When the
// second one settles, the key has been repaired, and counted: nothing must be done
// about it that could end in a clean-up.
func TestARepairOnOldNewsTakesNoVoteAway(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithNodeTimeout(5*time.Second))
		a, err := r.TryLock(t.Context(), []string{"a"}, 30*time.Second)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.NoError(t, c.Nodes[3].Del("a")) // data loss 1 (repaired below)
		require.NoError(t, c.Nodes[4].Hang())
		require.NoError(t, a.Extend(t.Context(), 30*time.Second)) // E1: 3 gone, 4 pending, settles at 5 s
		time.Sleep(2 * time.Second)
		require.NoError(t, a.Extend(t.Context(), 30*time.Second)) // E2: the same, settles at 7 s
		time.Sleep(3*time.Second + 500*time.Millisecond)
		require.Equal(t, 5, holders(t, c, a), "E1's repair")
		require.NoError(t, c.Nodes[2].Hang())
		require.NoError(t, a.Extend(t.Context(), 30*time.Second)) // E3: quorum 0, 1, 3
		c.Nodes[3].Proxy().Refuse(true)
		c.Nodes[3].Proxy().Kill()
		time.Sleep(1700 * time.Millisecond) // E2 settles: a second repair of node 3
		c.Nodes[3].Proxy().Refuse(false)
		for range 200 { // until the clean-up of node 3
			if _, ok, _ := c.Nodes[3].Get("a"); !ok {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		for _, i := range []int{2, 4} { // a minority loses its data
			require.NoError(t, c.Nodes[i].Stop())
			require.NoError(t, c.Nodes[i].Restart(false))
			require.NoError(t, c.Nodes[i].Resume())
		}
		_, ok, _ := c.Nodes[3].Get("a")
		assert.True(t, ok, "the key on node 3, counted by E3, was taken away")
		b, err := newRedlock(t, c).TryLock(t.Context(), []string{"a"}, 30*time.Second)
		if err == nil && a.Err() == nil {
			t.Error("TWO HOLDERS: a until", time.Until(a.Until()), "b until", time.Until(b.Until()))
		}
	})
}

// The same with nothing but KeepAlive, and a node timeout beyond a third of the ttl.
func TestRepairsUnderKeepAliveTakeNoVoteAway(t *testing.T) {
	bad := 0
	for range rounds(20, 5) {
		inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c, WithNodeTimeout(1900*time.Millisecond))
			a, err := r.TryLock(t.Context(), []string{"a"}, 3*time.Second)
			require.NoError(t, err)
			ctx := a.KeepAlive(t.Context())
			time.Sleep(2500 * time.Millisecond)
			require.NoError(t, c.Nodes[3].Del("a"))
			require.NoError(t, c.Nodes[4].Hang())
			for i := 0; i < 1000; i++ {
				time.Sleep(10 * time.Millisecond)
				if _, ok, _ := c.Nodes[3].Get("a"); ok {
					break
				}
			}
			time.Sleep(1100 * time.Millisecond)
			ext := a.Until() // counted since, with node 3
			c.Nodes[3].Proxy().Refuse(true)
			c.Nodes[3].Proxy().Kill()
			time.Sleep(900 * time.Millisecond)
			c.Nodes[3].Proxy().Refuse(false)
			for range 100 {
				time.Sleep(10 * time.Millisecond)
				if _, ok, _ := c.Nodes[3].Get("a"); !ok && time.Now().Before(ext) && ctx.Err() == nil {
					bad++
					break
				}
			}
			_ = a.Unlock(t.Context())
			_ = c.Nodes[4].Resume()
		})
	}
	assert.Zero(t, bad, "runs in which a key was deleted under a held lock")
}

func TestALapsedLockIsNotRepairedByALateConnection(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, 10*time.Second)
		require.NoError(t, err)
		time.Sleep(9 * time.Second)
		require.NoError(t, c.Nodes[2].Del("a"))
		c.Nodes[1].Proxy().SetDelays(0, 0, 90*time.Millisecond, 90*time.Millisecond)
		done := make(chan error, 1)
		go func() { done <- l.Extend(t.Context(), 850*time.Millisecond) }()
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, c.Nodes[2].Hang())
		c.Nodes[2].Proxy().Kill()
		require.NoError(t, <-done)
		// until is max(10-.., 9+1.2-..)
		require.NoError(t, c.Nodes[0].Hang())
		time.Sleep(time.Until(l.Until().Add(100 * time.Millisecond)))
		_ = c.Nodes[2].Resume()
		_ = c.Nodes[0].Resume()
		time.Sleep(100 * time.Millisecond)
		require.ErrorIs(t, l.Err(), ErrExpired)
		_, ok, _ := c.Nodes[2].Get("a")
		assert.False(t, ok, "a lapsed lock got its key again")
	})
}

func TestAMinHoldIsNotLongerForARefusedRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		start := time.Now()
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute, WithMinHold(8*time.Second))
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, c.Nodes[2].SetError("BUSY x"))
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(6 * time.Second)
		require.NoError(t, c.Nodes[2].SetError(""))
		time.Sleep(time.Until(start.Add(9 * time.Second)))
		for i, n := range c.Nodes {
			k := keys(t, n)["a"]
			assert.Empty(t, k.Value, "node %d still has the key, for %v", i, k)
		}
	})
}

func TestAMinHoldIsNotLongerForAQueuedRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		start := time.Now()
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute, WithMinHold(8*time.Second))
		require.NoError(t, err)
		time.Sleep(7 * time.Second)
		require.NoError(t, c.Nodes[2].Hang())
		c.Nodes[2].Proxy().Kill()
		synctest.Wait()
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(900 * time.Millisecond)
		_ = c.Nodes[2].Resume()
		time.Sleep(time.Until(start.Add(8*time.Second + 300*time.Millisecond)))
		assert.Empty(t, keys(t, c.Nodes[2])["a"].Value)
	})
}

func TestDoReportsMaxHoldBesideAnExpiry(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		err := r.Do(t.Context(), []string{"a"}, time.Second, func(ctx context.Context, _ *Lock) error {
			<-ctx.Done()
			time.Sleep(2 * time.Second)
			return assert.AnError
		}, WithMaxHold(3*time.Second))
		require.ErrorIs(t, err, ErrExpired)
		assert.ErrorIs(t, err, ErrMaxHold, "fn failed after WithMaxHold ended its context")
	})
}

func TestANestedDoReportsItsOwnLockOnly(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		var inner error
		_ = r.Do(t.Context(), []string{"outer"}, time.Second, func(ctx context.Context, _ *Lock) error {
			inner = r.Do(ctx, []string{"inner"}, time.Minute, func(ctx context.Context, l *Lock) error {
				for _, n := range c.Nodes {
					require.NoError(t, n.Del("outer"))
				}
				<-ctx.Done()
				return l.Err() // nil: it is held
			})
			return nil
		})
		assert.NoError(t, inner, "the inner lock was never lost and fn succeeded")
	})
}

func TestKeepAliveAfterMaxHoldIsDone(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, 10*time.Second, WithMaxHold(time.Second))
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		until := l.Until()
		ctx := l.KeepAlive(t.Context())
		require.ErrorIs(t, context.Cause(ctx), ErrMaxHold, "done from the start")
		synctest.Wait()
		assert.Equal(t, until, l.Until(), "extended after max hold")
	})
}

func TestKeepAliveWithALargeDriftFactor(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, ctx := kept(t, r, 10*time.Second, WithDriftFactor(0.75))
		time.Sleep(time.Minute)
		require.NoError(t, context.Cause(ctx), "healthy nodes")
		assert.NotZero(t, r.Stats().Extended)
		_ = l.Unlock(t.Context())
	})
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		fails, holds := 0, rounds(50, 4)
		for range holds {
			l, ctx := kept(t, r, 3*time.Millisecond)
			time.Sleep(50 * time.Millisecond)
			if ctx.Err() != nil {
				fails++
			}
			_ = l.Unlock(t.Context())
			time.Sleep(10 * time.Millisecond)
		}
		assert.Zero(t, fails, "ttl 3ms, no latency: of %d", holds)
	})
}

func TestRepairsOutliveAScriptFlush(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, ctx := kept(t, r, 10*time.Second)
		time.Sleep(time.Second)
		for _, n := range c.Nodes {
			require.NoError(t, n.FlushScripts())
		}
		for _, n := range c.Nodes { // one after the other
			require.NoError(t, n.Del("a"))
			time.Sleep(scenario(10*time.Minute, time.Minute))
		}
		require.NoError(t, context.Cause(ctx))
		assert.Equal(t, 5, holders(t, c, l))
		t.Logf("repaired %d", r.Stats().Repaired)
		_ = l.Unlock(t.Context())
	})
}

func TestDoDoesNotReportWhatItsFunctionReleased(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		err := r.Do(t.Context(), []string{"a"}, 10*time.Second, func(ctx context.Context, l *Lock) error {
			time.Sleep(time.Second)
			for _, n := range c.Nodes {
				require.NoError(t, n.Stop())
			}
			time.Sleep(time.Second)
			require.NoError(t, l.Err())
			require.ErrorIs(t, l.Unlock(ctx), ErrNoQuorum) // done with the lock, which was held
			time.Sleep(2 * time.Minute)
			for _, n := range c.Nodes {
				require.NoError(t, n.Restart(true))
			}
			time.Sleep(5 * time.Second)
			return nil
		})
		assert.NoError(t, err, "the lock was held until its release began")
	})
}

// The extension that the release overtakes must not count the hold out.
func TestCloseWaitsForAnUnlockBesideAnExtension(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, _ := kept(t, r, 30*time.Second, WithNodeTimeout(5*time.Second))
		time.Sleep(time.Second)
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(500*time.Millisecond, 500*time.Millisecond))
		}
		go func() { _ = l.Extend(t.Context(), 30*time.Second) }()
		time.Sleep(500 * time.Millisecond)
		res := make(chan error, 1)
		go func() { res <- l.Unlock(t.Context()) }()
		synctest.Wait()
		start := time.Now()
		cl := r.Close(context.Background())
		t.Logf("Close %v after %v", cl, time.Since(start))
		require.NoError(t, <-res, "Close must wait for the release")
		requireReleased(t, c)
	})
}

// An extension has just found the loss, and fn returns before anybody was told.
func TestDoReportsALossThatNobodyHasHandledYet(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		err := r.Do(t.Context(), []string{"a"}, 10*time.Second, func(ctx context.Context, l *Lock) error {
			MarkEnded(l, ErrLost)
			for _, n := range c.Nodes {
				require.NoError(t, n.Stop())
			}
			return nil
		})
		assert.ErrorIs(t, err, ErrLost)
	})
}

func TestMaxHoldMovesUntilNoMore(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithNodeTimeout(time.Second))
		l, ctx := kept(t, r, 10*time.Second, WithMaxHold(3500*time.Millisecond))
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(400*time.Millisecond, 400*time.Millisecond))
		}
		<-ctx.Done()
		until := l.Until()
		time.Sleep(2 * time.Second)
		assert.Equal(t, until, l.Until(), "not extended any more after ErrMaxHold")
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(0, 0))
		}
		_ = l.Unlock(t.Context())
	})
}

func TestDoReleasesWhateverEndsItsFunction(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = r.Do(t.Context(), []string{"a"}, time.Minute, func(context.Context, *Lock) error { runtime.Goexit(); return nil })
		}()
		<-done
		requireReleased(t, c)
		func() {
			defer func() { _ = recover() }()
			_ = r.Do(t.Context(), []string{"a"}, time.Minute, func(context.Context, *Lock) error { panic("boom") })
		}()
		requireReleased(t, c)
		assert.Zero(t, r.Stats().Kept)
		require.NoError(t, r.Close(context.Background()))
	})
}
