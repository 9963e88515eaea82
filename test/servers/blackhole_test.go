package servers

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// Packets to one node vanish; connections that were opened meanwhile, or have
// lost any, stay dead.
func TestConnectionsHealSoonAfterABlackHole(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	pools := map[string]func(i int) redlock.Node{
		"NewNode":   func(i int) redlock.Node { return redlock.NewNode(c.Nodes[i].Addr()) },
		"deaf pool": func(i int) redlock.Node { return redlock.Node{Name: c.Nodes[i].Name(), Pool: deafPool(c.Nodes[i])} },
	}
	clients := make(map[string]*redlock.Redlock)
	for name, node := range pools {
		r := newOver(t, []redlock.Node{node(0), node(1), node(2)}, redlock.WithPrefix(name+":"))
		awaitAll(t, c, r, 30*time.Second)
		clients[name] = r
	}
	c.Nodes[2].Proxy().BlackHole(true)
	ctx, cancel := context.WithTimeout(t.Context(), scenario(5*time.Second, 2*time.Second))
	defer cancel()
	cycles := 0
	for rest(ctx, 10*time.Millisecond, 10*time.Millisecond) {
		for name, r := range clients {
			l, err := r.Lock(t.Context(), []string{"a"}, time.Minute)
			require.NoError(t, err, name)
			release(t, l)
			cycles++
		}
	}
	c.Nodes[2].Proxy().BlackHole(false)
	const promise, slack = 3 * time.Second, 3 * time.Second
	for name, r := range clients {
		t.Logf("%s: locks on all nodes %v after the hole's end", name, awaitAll(t, c, r, promise+slack))
	}
	awaitNoKeys(t, c, 30*time.Second)
	t.Logf("%d cycles meanwhile", cycles)
}
