package redlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A lock that was not held any more when Unlock began has ended, whatever the nodes
// answer: somebody else may have had it since.
func TestUnlockOfALockThatHadEnded(t *testing.T) {
	type nodes = func(t *testing.T, c *testcluster.Cluster)
	each := func(f func(n *testcluster.Node) error) nodes {
		return func(t *testing.T, c *testcluster.Cluster) {
			t.Helper()
			for _, n := range c.Nodes {
				require.NoError(t, f(n))
			}
		}
	}
	for name, answer := range map[string]nodes{
		"the keys are still there":       func(*testing.T, *testcluster.Cluster) {},
		"the keys are gone":              each(func(n *testcluster.Node) error { return n.Del("a") }),
		"somebody else has it":           each(func(n *testcluster.Node) error { return n.Set("a", "thief", time.Hour) }),
		"a minority has it":              func(t *testing.T, c *testcluster.Cluster) { require.NoError(t, c.Nodes[0].Del("a")) },
		"the nodes answer with an error": each(func(n *testcluster.Node) error { return n.SetError("BUSY x") }),
		"no node answers":                each((*testcluster.Node).Hang),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				r := newRedlock(t, c, redlock.WithDriftFactor(0.5))
				l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
				require.NoError(t, err)
				time.Sleep(time.Until(l.Until())) // Within the drift allowance: the keys live for another 30 s.
				answer(t, c)
				err = l.Unlock(t.Context())
				require.ErrorIs(t, err, redlock.ErrExpired)
				require.NotErrorIs(t, err, redlock.ErrNoQuorum)
				assert.Zero(t, r.Stats().Unlocked)
				assert.Equal(t, int64(1), r.Stats().Lost)
				require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrExpired, "repeated")
				for _, n := range c.Nodes {
					require.NoError(t, n.SetError(""))
					require.NoError(t, n.Resume())
				}
				time.Sleep(5 * time.Second)
				assert.Zero(t, holders(t, c, l), "it is released all the same")
			})
		})
	}
	t.Run("an extension had found it lost", func(t *testing.T) {
		inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.NoError(t, err)
			synctest.Wait()
			for _, n := range c.Nodes[:3] {
				require.NoError(t, n.Del("a"))
			}
			require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrLost)
			for _, n := range c.Nodes[:3] {
				require.NoError(t, n.Set("a", l.Token(), ttl)) // As if the keys were back.
			}
			err = l.Unlock(t.Context())
			require.ErrorIs(t, err, redlock.ErrLost)
			require.NotErrorIs(t, err, redlock.ErrExpired)
			synctest.Wait()
			assert.Zero(t, holders(t, c, l))
		})
	})
}

// What ends a lock while its release is on its way is no loss: it was held until then.
func TestUnlockThatBeginsInTimeMayEndLate(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.Slow(10*time.Millisecond, 10*time.Millisecond))
		time.Sleep(time.Until(l.Until()) - time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		assert.Positive(t, time.Since(l.Until()))
		require.NoError(t, l.Unlock(t.Context()), "repeated")
	})
}

// Once Close has taken the connections away, the errors say that it was Close.
func TestUnlockAndExtendAfterCloseSaySo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		old, err := r.TryLock(t.Context(), []string{"b"}, time.Second)
		require.NoError(t, err)
		require.NoError(t, r.Close(t.Context()))
		for _, err := range []error{l.Extend(t.Context(), ttl), l.Unlock(t.Context())} {
			require.ErrorIs(t, err, redlock.ErrClosed)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			var qe *redlock.QuorumError
			require.ErrorAs(t, err, &qe)
			require.NotErrorIs(t, qe, redlock.ErrClosed, "exactly one reason")
		}
		time.Sleep(2 * time.Second)
		err = old.Unlock(t.Context())
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.ErrorIs(t, err, redlock.ErrExpired)
	})
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) { // A node that is down is not Close's doing.
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		require.NoError(t, c.Stop())
		require.NotErrorIs(t, l.Unlock(t.Context()), redlock.ErrClosed)
	})
}

func TestUnlockIgnoresACancelledContext(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		l, err := r.TryLock(ctx, []string{"a"}, ttl)
		require.NoError(t, err)
		cancel()
		require.NoError(t, l.Unlock(ctx))
		synctest.Wait()
		requireNoKeys(t, c)
	})
}

func TestUnlockTakesNoContextForGranted(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newRedlock(t, c, redlock.WithHook(rec.Hook))
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		var none context.Context
		require.NoError(t, l.Unlock(none))
	})
}

func TestUnlockOfAStolenLock(t *testing.T) {
	for stolen := range 6 {
		for _, expired := range []bool{false, true} {
			inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
				r := newRedlock(t, c)
				l, err := r.TryLock(t.Context(), []string{"a", "b"}, ttl)
				require.NoError(t, err)
				synctest.Wait()
				if expired {
					time.Sleep(time.Until(l.Until()))
				}
				for _, n := range c.Nodes[:stolen] {
					require.NoError(t, n.Set("b", "thief", ttl))
				}
				err = l.Unlock(t.Context())
				switch {
				case expired:
					require.ErrorIs(t, err, redlock.ErrExpired)
				case stolen <= 2:
					require.NoError(t, err)
				default:
					require.ErrorIs(t, err, redlock.ErrLost)
					require.NotErrorIs(t, err, redlock.ErrExpired)
				}
				require.Equal(t, err, l.Unlock(t.Context()), "repeated")
				synctest.Wait()
				for _, n := range c.Nodes {
					require.NotContains(t, keys(t, n), "a")
				}
				for _, n := range c.Nodes[:stolen] {
					require.Equal(t, "thief", keys(t, n)["b"].Value)
				}
			})
		}
	}
}

func TestUnlocksThatAreConcurrentAreOneRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
		scripts := countCommands(t, "", c.Nodes...)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { assert.NoError(t, l.Unlock(context.Background())) })
		}
		wg.Wait()
		synctest.Wait()
		assert.Equal(t, int64(3), scripts.Load())
	})
}

func TestUnlocksAtTheSameTimeAreOne(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.Hang())
		start := time.Now()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { assert.ErrorIs(t, l.Unlock(context.Background()), redlock.ErrNoQuorum) })
		}
		wg.Wait()
		assert.LessOrEqual(t, time.Since(start), redlock.DefaultNodeTimeout)
	})
}
