package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/reserved"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// These are like those of test/testkit, which tests in this package cannot import: it imports
// this package.

func nodesOf(c *testcluster.Cluster) []Node {
	nodes := make([]Node, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = Node{Name: n.Name(), Pool: n.Pool()}
	}
	return nodes
}

func newRedlock(t *testing.T, c *testcluster.Cluster, opts ...Option) *Redlock {
	t.Helper()
	return newOver(t, nodesOf(c), opts...)
}

func newOver(tb testing.TB, nodes []Node, opts ...Option) *Redlock {
	tb.Helper()
	r, err := New(nodes, opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = r.Close(context.Background()) })
	return r
}

func inBubble(t *testing.T, n int, fn func(t *testing.T, c *testcluster.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(t, testcluster.RunBubble(t, n)) })
}

type forbidden struct{ t *testing.T }

func (p forbidden) GetContext(context.Context) (redis.Conn, error) {
	p.t.Error("I/O")
	return nil, nil //nolint:nilnil // Not reached.
}

func forbiddenNodes(t *testing.T, n int) []Node {
	t.Helper()
	pool := forbidden{t}
	return []Node{{"a", pool}, {"b", pool}, {"c", pool}}[:n]
}

func keys(t *testing.T, n *testcluster.Node) map[string]testcluster.KeyState {
	t.Helper()
	all, err := n.Keys()
	require.NoError(t, err)
	for k := range all {
		if reserved.Has(k) {
			delete(all, k)
		}
	}
	return all
}

func requireNoKeys(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	for _, n := range c.Nodes {
		require.Empty(t, keys(t, n), "keys left on %s", n.Name())
	}
}

func rounds(usual, short int) int {
	if testing.Short() {
		return short
	}
	return usual
}

const ttl = 10 * time.Second

func warm(t *testing.T, r *Redlock) {
	t.Helper()
	l, err := r.TryLock(t.Context(), []string{"warm"}, ttl)
	require.NoError(t, err)
	synctest.Wait()
	require.NoError(t, l.Unlock(t.Context()))
	synctest.Wait()
}

func votesOf(t *testing.T, err error) []Vote {
	t.Helper()
	var qe *QuorumError
	require.ErrorAs(t, err, &qe)
	return qe.Votes
}
