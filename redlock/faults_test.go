package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

func TestLockWithAFaultyMinorityCostsNothing(t *testing.T) {
	faults := map[string]func(n *testcluster.Node) error{
		"hung":       (*testcluster.Node).Hang,
		"dead":       (*testcluster.Node).Stop,
		"black hole": func(n *testcluster.Node) error { n.Proxy().BlackHole(true); return nil },
		"mute":       func(n *testcluster.Node) error { n.Proxy().DropReplies(true); return nil },
		"refusing":   func(n *testcluster.Node) error { n.Proxy().Refuse(true); return nil },
		"loading":    func(n *testcluster.Node) error { return n.SetError("LOADING Redis is loading the dataset in memory") },
		"slow":       func(n *testcluster.Node) error { return n.Slow(90*time.Millisecond, 300*time.Millisecond) },
	}
	for name, fault := range faults {
		for _, connected := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
					r := newRedlock(t, c)
					if connected {
						warm(t, r)
					}
					require.NoError(t, fault(c.Nodes[1]))
					require.NoError(t, fault(c.Nodes[4]))
					for range rounds(30, 6) {
						start := time.Now()
						l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
						require.NoError(t, err)
						require.NoError(t, l.Extend(t.Context(), 2*ttl))
						require.NoError(t, l.Unlock(t.Context()))
						require.Zero(t, time.Since(start), "fake time: the healthy nodes need none")
						time.Sleep(77 * time.Millisecond)
					}
				})
			})
		}
	}
}

func TestLockWithASilentMajorityEndsWithinTheNodeTimeout(t *testing.T) {
	for _, connected := range []bool{true, false} {
		inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			if connected {
				warm(t, r)
			}
			for _, n := range c.Nodes[:3] {
				require.NoError(t, n.Hang())
			}
			for i := range 20 {
				start := time.Now()
				_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				require.NotErrorIs(t, err, redlock.ErrTaken)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				limit := redlock.DefaultNodeTimeout
				if i == 0 && !connected { // It is not known yet that they hang.
					limit += redlock.DefaultConnectTimeout
				}
				require.LessOrEqual(t, time.Since(start), limit)
				votes := votesOf(t, err)
				require.Len(t, votes, 5)
				for i, v := range votes {
					assert.Equal(t, c.Nodes[i].Name(), v.Node)
					if i < 3 {
						require.Error(t, v.Err)
					} else if v.Err != nil {
						require.ErrorIs(t, v.Err, redlock.ErrPending)
					}
				}
				time.Sleep(100 * time.Millisecond)
			}
			for _, n := range c.Nodes[:3] {
				require.NoError(t, n.Resume())
			}
			time.Sleep(3 * time.Second)
			requireNoKeys(t, c)
			l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.NoError(t, err)
			synctest.Wait()
			assert.Equal(t, 5, holders(t, c, l), "all nodes are back")
			require.NoError(t, l.Unlock(t.Context()))
		})
	}
}

func TestLockTellsTakenFromUnreachable(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		// Two nodes down and another's key on the others: silence alone does not
		// prevent a quorum, the holder does.
		require.NoError(t, c.Nodes[0].Stop())
		require.NoError(t, c.Nodes[1].Hang())
		for _, n := range c.Nodes[2:] {
			require.NoError(t, n.Set("a", "somebody", ttl))
		}
		_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NotErrorIs(t, err, redlock.ErrNoQuorum)
		votes := votesOf(t, err)
		refusals := 0
		for _, v := range votes[2:] {
			if errors.Is(v.Err, redlock.ErrTaken) {
				refusals++
				assert.Equal(t, tokens.Digest("somebody"), v.Holder)
				assert.InDelta(t, ttl, v.HolderTTL, float64(time.Millisecond))
			}
		}
		assert.GreaterOrEqual(t, refusals, 2, "beside a node that is down, two refusals decide")
		require.Error(t, votes[0].Err)
		require.Error(t, votes[1].Err)

		require.NoError(t, c.Nodes[1].Stop())
		require.NoError(t, c.Nodes[2].Stop())
		time.Sleep(2 * time.Second) // The hung connection has been given up.
		_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, redlock.ErrTaken)
	})
}

func TestLockReleasesAYesThatComesLate(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		synctest.Wait() // The last node is connected, too.
		require.NoError(t, c.Slow(150*time.Millisecond, 200*time.Millisecond))
		_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		late := 0
		for _, v := range votesOf(t, err) {
			if errors.Is(v.Err, redlock.ErrNodeTimeout) {
				late++
			} else {
				require.ErrorIs(t, v.Err, redlock.ErrPending, "the last one changes nothing")
			}
		}
		require.GreaterOrEqual(t, late, 2)
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		time.Sleep(500 * time.Millisecond)
		requireNoKeys(t, c)
	})
}

func TestLockThatIsCancelledLeavesNothing(t *testing.T) {
	for _, delay := range []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond, 25 * time.Millisecond, 60 * time.Millisecond} {
		inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			warm(t, r)
			for _, n := range c.Nodes[:3] {
				require.NoError(t, n.Slow(20*time.Millisecond, 30*time.Millisecond))
			}
			ctx, cancel := context.WithTimeout(t.Context(), delay)
			defer cancel()
			l, err := r.TryLock(ctx, []string{"a"}, time.Minute)
			if delay < 50*time.Millisecond {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				time.Sleep(time.Second)
				requireNoKeys(t, c)
				return
			}
			require.NoError(t, err)
			require.NoError(t, l.Unlock(ctx))
		})
	}
}

func TestLockErrorHasNoErrorsOfNodesInItsChain(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		require.NoError(t, c.Nodes[0].Stop())
		_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		vote := votesOf(t, err)[0]
		require.Error(t, vote.Err)
		require.NotErrorIs(t, err, vote.Err)
	})
}
