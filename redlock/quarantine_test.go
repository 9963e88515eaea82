package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

const maxTTL = 30 * time.Second

// names returns the names of all nodes.
func names(c *testcluster.Cluster) []string {
	all := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		all[i] = n.Name()
	}
	return all
}

// admitted returns a Redlock with quarantine whose nodes may vote.
func admitted(t *testing.T, c *testcluster.Cluster, opts ...Option) *Redlock {
	t.Helper()
	r := newRedlock(t, c, append(opts, WithQuarantine(maxTTL))...)
	require.NoError(t, r.Admit(t.Context(), names(c)...))
	return r
}

func TestANewClusterIsQuarantinedOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithQuarantine(maxTTL))
		_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.NotErrorIs(t, err, ErrQuarantined, "a node's error is in the votes only")
		var qe *QuorumError
		require.ErrorAs(t, err, &qe)
		abstained := 0
		for _, v := range qe.Votes {
			if errors.Is(v.Err, ErrQuarantined) {
				abstained++
				assert.Equal(t, maxTTL+time.Second, v.HolderTTL)
				require.ErrorContains(t, v.Err, "31s")
			}
		}
		assert.GreaterOrEqual(t, abstained, 2)
		synctest.Wait()
		for _, n := range c.Nodes {
			assert.Empty(t, keys(t, n))
		}
		// Lock waits for the end of it, to the millisecond, not to the next poll.
		start := time.Now()
		l, err := r.Lock(t.Context(), []string{"x"}, ttl, slowly()...)
		require.NoError(t, err)
		assert.InDelta(t, maxTTL+time.Second, time.Since(start), float64(20*time.Millisecond))
		require.NoError(t, l.Unlock(t.Context()))
		l, err = newRedlock(t, c, WithQuarantine(maxTTL)).TryLock(t.Context(), []string{"x"}, ttl, WithFencing())
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// A node that has lost its data, or only restarted, grants nothing for a while, in any
// of the ways to be asked. Locks that are held go on.
func TestARestartedNodeAbstains(t *testing.T) {
	for _, lose := range []func(n *testcluster.Node) error{
		func(n *testcluster.Node) error { return n.Restart(false) },
		func(n *testcluster.Node) error { return n.Restart(true) },
		func(n *testcluster.Node) error { return n.Flush() },
	} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r, other := admitted(t, c), newRedlock(t, c, WithQuarantine(maxTTL))
			held, err := r.TryLock(t.Context(), []string{"x"}, maxTTL)
			require.NoError(t, err)
			kept, err := r.TryLock(t.Context(), []string{"kept"}, ttl)
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, lose(c.Nodes[0]))
			time.Sleep(3 * time.Second) // They are connected again.
			var l *Lock
			for _, opts := range [][]Option{nil, {WithFencing()}, {WithRetryCount(2)}, {WithFencing(), WithRetryCount(2)}} {
				l, err = other.Lock(t.Context(), []string{"y"}, ttl, opts...)
				require.NoError(t, err)
				synctest.Wait()
				assert.NotContains(t, keys(t, c.Nodes[0]), "y")
				assert.Contains(t, keys(t, c.Nodes[1]), "y")
				require.NoError(t, l.Unlock(t.Context()))
				synctest.Wait()
			}
			for time.Now().Before(held.Until()) {
				_, err = other.TryLock(t.Context(), []string{"x"}, ttl)
				require.Error(t, err)
				require.NoError(t, kept.Extend(t.Context(), ttl))
				time.Sleep(time.Second)
			}
			assert.Zero(t, r.Stats().Repaired, "a repair is a grant")
			for range 5 {
				time.Sleep(2 * time.Second)
				require.NoError(t, kept.Extend(t.Context(), ttl))
			}
			l, err = other.TryLock(t.Context(), []string{"x"}, ttl)
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
			synctest.Wait()
			require.NoError(t, kept.Unlock(t.Context()))
		})
	}
}

func TestAnotherConfigurationIsRefusedUntilItIsAdmitted(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		_ = admitted(t, c)
		for what, other := range map[string]*Redlock{
			"3 nodes, maxTTL 30s": newRedlock(t, c, WithQuarantine(time.Minute)),
		} {
			_, err := other.TryLock(t.Context(), []string{"x"}, ttl)
			require.ErrorIs(t, err, ErrNoQuorum)
			require.ErrorContains(t, err, what)
			require.NotContains(t, err.Error(), ErrQuarantined.Error())
			require.NoError(t, other.Admit(t.Context(), names(c)[:2]...))
			l, err := other.TryLock(t.Context(), []string{"x"}, time.Minute)
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
		}
		two, err := New(nodesOf(c)[:2], WithQuarantine(time.Minute))
		require.NoError(t, err)
		defer func() { _ = two.Close(context.Background()) }()
		_, err = two.TryLock(t.Context(), []string{"x"}, ttl)
		require.ErrorContains(t, err, "3 nodes, maxTTL 1m0s")
	})
}

func TestQuarantineChecksItsArguments(t *testing.T) {
	nodes := []Node{{"a", forbidden{t}}, {"b", forbidden{t}}}
	for _, d := range []time.Duration{0, -1, time.Microsecond, maxQuarantine + 1} {
		_, err := New(nodes, WithQuarantine(d))
		require.ErrorContains(t, err, "quarantine's maxTTL "+d.String())
	}
	r, err := New(nodes, WithQuarantine(maxTTL))
	require.NoError(t, err)
	_, err = r.TryLock(t.Context(), []string{"x"}, maxTTL+1)
	require.ErrorContains(t, err, "ttl 30.000000001s: must not exceed the quarantine's maxTTL 30s")
	_, err = r.TryLock(t.Context(), []string{"x"}, ttl, WithQuarantine(maxTTL))
	require.ErrorContains(t, err, "WithQuarantine is an option for New")
	require.ErrorContains(t, r.Admit(t.Context()), "no nodes")
	require.ErrorContains(t, r.Admit(t.Context(), "a", "c"), `no node is named "c"`)
	require.NoError(t, r.Close(t.Context()))
	require.ErrorIs(t, r.Admit(t.Context(), "a"), ErrClosed)
	r, err = New(nodes)
	require.NoError(t, err)
	require.ErrorContains(t, r.Admit(t.Context(), "a"), "no WithQuarantine")
	require.NoError(t, r.Close(t.Context()))
}

// When its quarantine is over, a node gets back the locks that are held, with their fences.
func TestRepairsGoOnAfterQuarantine(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := admitted(t, c, WithFencing())
		held, err := r.TryLock(t.Context(), []string{"x", "y"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
		kept := held.KeepAlive(t.Context())
		require.NoError(t, c.Nodes[0].Flush())
		time.Sleep(maxTTL)
		assert.Empty(t, keys(t, c.Nodes[0]))
		time.Sleep(maxTTL)
		assert.Len(t, keys(t, c.Nodes[0]), 2)
		assert.Equal(t, []int64{held.Fence(), held.Fence(), held.Fence()}, countersOf(t, c, "y"))
		require.NoError(t, kept.Err())
		require.NoError(t, held.Unlock(t.Context()))
	})
}
