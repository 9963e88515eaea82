package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
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
				r := newRedlock(t, c, WithDriftFactor(0.5))
				l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
				require.NoError(t, err)
				time.Sleep(time.Until(l.Until())) // Within the drift allowance: the keys live for another 30 s.
				answer(t, c)
				err = l.Unlock(t.Context())
				require.ErrorIs(t, err, ErrExpired)
				require.NotErrorIs(t, err, ErrNoQuorum)
				assert.Zero(t, r.Stats().Unlocked)
				assert.Equal(t, int64(1), r.Stats().Lost)
				require.ErrorIs(t, l.Unlock(t.Context()), ErrExpired, "repeated")
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
			require.ErrorIs(t, l.Extend(t.Context(), ttl), ErrLost)
			for _, n := range c.Nodes[:3] {
				require.NoError(t, n.Set("a", l.Token(), ttl)) // As if the keys were back.
			}
			err = l.Unlock(t.Context())
			require.ErrorIs(t, err, ErrLost)
			require.NotErrorIs(t, err, ErrExpired)
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
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(10*time.Millisecond, 10*time.Millisecond))
		}
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
			require.ErrorIs(t, err, ErrClosed)
			require.ErrorIs(t, err, ErrNoQuorum)
			var qe *QuorumError
			require.ErrorAs(t, err, &qe)
			require.NotErrorIs(t, qe, ErrClosed, "exactly one reason")
		}
		time.Sleep(2 * time.Second)
		err = old.Unlock(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, err, ErrExpired)
	})
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) { // A node that is down is not Close's doing.
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		for _, n := range c.Nodes {
			require.NoError(t, n.Stop())
		}
		require.NotErrorIs(t, l.Unlock(t.Context()), ErrClosed)
	})
}
