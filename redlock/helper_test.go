package redlock

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// nodesOf returns the nodes of a cluster: every other one with a pool of the
// user's, the others as NewNode makes them.
func nodesOf(c *testcluster.Cluster) []Node {
	nodes := make([]Node, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = Node{Name: n.Name(), Pool: n.Pool()}
		if i%2 == 1 {
			nodes[i].Pool = dialerOf(n)
		}
	}
	return nodes
}

// dialerOf returns what NewNode would, if the node had an address.
func dialerOf(n *testcluster.Node) Pool {
	return &conn.Dialer{
		Dial:    func(ctx context.Context, _, _ string) (net.Conn, error) { return n.Dial(ctx) },
		Network: "tcp", Address: n.Addr(),
	}
}

// newRedlock returns a Redlock over a cluster that ends with the test.
func newRedlock(t *testing.T, c *testcluster.Cluster, opts ...Option) *Redlock {
	t.Helper()
	return newOver(t, nodesOf(c), opts...)
}

// newOver returns a Redlock over nodes that ends with the test.
func newOver(tb testing.TB, nodes []Node, opts ...Option) *Redlock {
	tb.Helper()
	r, err := New(nodes, opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = r.Close(context.Background()) })
	return r
}

// inBubble runs fn in a bubble of fake time with n in-memory nodes.
func inBubble(t *testing.T, n int, fn func(t *testing.T, c *testcluster.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(t, testcluster.RunBubble(t, n)) })
}

// forbidden is a pool that must not be used.
type forbidden struct{ t *testing.T }

func (p forbidden) GetContext(context.Context) (redis.Conn, error) {
	p.t.Error("I/O")
	return nil, nil //nolint:nilnil // Not reached.
}

// forbiddenNodes returns up to three nodes, a to c, that no test must get to.
func forbiddenNodes(t *testing.T, n int) []Node {
	t.Helper()
	pool := forbidden{t}
	return []Node{{"a", pool}, {"b", pool}, {"c", pool}}[:n]
}

// keys returns the keys of a node that are locks, not the library's own.
func keys(t *testing.T, n *testcluster.Node) map[string]testcluster.KeyState {
	t.Helper()
	all, err := n.Keys()
	require.NoError(t, err)
	for k := range all {
		if isReserved(k) {
			delete(all, k)
		}
	}
	return all
}

// requireNoKeys checks that no node stores a lock.
func requireNoKeys(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	for _, n := range c.Nodes {
		require.Empty(t, keys(t, n), "keys left on %s", n.Name())
	}
}

// rounds is how often a test does what it repeats: usual times, or short times with -short,
// where every test has to be quick and one round of each kind is what counts.
func rounds(usual, short int) int {
	if testing.Short() {
		return short
	}
	return usual
}

const ttl = 10 * time.Second

// warm makes all connections, so that a test's times are those of requests.
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
