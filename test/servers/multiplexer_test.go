package servers

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// multiplexed puts a proxy before each server that keeps its clients' connections
// whatever becomes of the server: no client notices a restart.
func multiplexed(t *testing.T, c *testcluster.Cluster) []redlock.Node {
	t.Helper()
	nodes := make([]redlock.Node, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = behindMultiplexer(t, n.Name(), n.DirectAddr)
	}
	return nodes
}

func behindMultiplexer(t *testing.T, name string, addr func() string) redlock.Node {
	t.Helper()
	p := testcluster.NewProxy(func(context.Context) (net.Conn, error) { return testcluster.DialHidden(addr), nil })
	t.Cleanup(p.Close)
	at, err := p.Listen()
	require.NoError(t, err)
	return redlock.Node{Name: name, Pool: redlock.NewNode(at).Pool}
}
