package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// deafPool is what many programs have: its Dial ignores the context, has no
// timeouts, and asks the server something that may never be answered, as an
// AUTH or a SELECT does.
func deafPool(n *testcluster.Node) *redis.Pool {
	return &redis.Pool{
		MaxIdle: 3,
		Dial: func() (redis.Conn, error) {
			conn, err := n.Conn(context.Background())
			if err != nil {
				return nil, err
			}
			if _, err = conn.Do("PING"); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return conn, nil
		},
	}
}

// Packets to one node vanish; connections that were opened meanwhile, or have
// lost any, stay dead.
func TestRealBlackHoleHealsSoonAfterItsEnd(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	pools := map[string]func(i int) Node{
		"NewNode":   func(i int) Node { return NewNode(c.Nodes[i].Addr()) },
		"deaf pool": func(i int) Node { return Node{Name: c.Nodes[i].Name(), Pool: deafPool(c.Nodes[i])} },
	}
	clients := make(map[string]*Redlock)
	for name, node := range pools {
		r, err := New([]Node{node(0), node(1), node(2)}, WithPrefix(name+":"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = r.Close(context.Background()) })
		awaitAll(t, c, r, 10*time.Second)
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
	awaitNoKeys(t, c, 8*time.Second)
	t.Logf("%d cycles meanwhile", cycles)
}

func TestABlackHoleOf60sHealsWithin3s(t *testing.T) {
	pools := map[string]func(t *testing.T, c *testcluster.Cluster, n *testcluster.Node) Node{
		"NewNode": func(_ *testing.T, c *testcluster.Cluster, n *testcluster.Node) Node {
			return NewNode(n.Addr(), redis.DialContextFunc(c.DialContext))
		},
		"deaf pool": func(t *testing.T, _ *testcluster.Cluster, n *testcluster.Node) Node {
			pool := deafPool(n)
			t.Cleanup(func() { _ = pool.Close() })
			return Node{Name: n.Name(), Pool: pool}
		},
	}
	for name, node := range pools {
		for _, connected := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				// Several holes, as the waits between the attempts are random.
				for range rounds(5, 1) {
					inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
						var nodes []Node
						for _, n := range c.Nodes {
							nodes = append(nodes, node(t, c, n))
						}
						r, err := New(nodes)
						require.NoError(t, err)
						defer func() { _ = r.Close(context.Background()) }()
						if connected {
							warm(t, r)
						}
						c.Nodes[0].Proxy().BlackHole(true)
						for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
							l, lockErr := r.TryLock(t.Context(), []string{"a"}, time.Minute)
							require.NoError(t, lockErr)
							require.NoError(t, l.Unlock(t.Context()))
						}
						c.Nodes[0].Proxy().BlackHole(false)
						time.Sleep(3 * time.Second)
						synctest.Wait()
						l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
						require.NoError(t, err)
						synctest.Wait()
						require.Equal(t, 3, holders(t, c, l), "%v", r.Stats().Nodes[0])
						require.NoError(t, l.Unlock(t.Context()))
						synctest.Wait()
						requireNoKeys(t, c)
					})
				}
			})
		}
	}
}

// A pool whose calls hang for good must not keep its node away for good.
func TestANodeComesBackFromAHoleOfAnyLength(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		n := c.Nodes[0]
		pool := deafPool(n)
		defer func() { _ = pool.Close() }()
		r, err := New([]Node{{n.Name(), pool}})
		require.NoError(t, err)
		defer func() { _ = r.Close(context.Background()) }()
		warm(t, r)
		n.Proxy().BlackHole(true)
		time.Sleep(time.Hour)
		require.Less(t, NodesIn(r)[0].Source.Stuck(), conn.MaxStuck+130, "one more every StuckPause")
		n.Proxy().BlackHole(false)
		time.Sleep(conn.StuckPause + 3*time.Second)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
	})
}
