package servers

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// These tests are not parallel: they count goroutines.

// use lets r do something, on all nodes.
func use(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
	t.Helper()
	awaitAll(t, c, r, 30*time.Second)
	for range 20 {
		l, err := r.Lock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
	}
}

func awaitGoroutines(t *testing.T, most int) {
	t.Helper()
	await(t, 30*time.Second, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= most })
}

func TestPoolGetsItsConnectionsBackFromClose(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	var nodes []redlock.Node
	var pools []*redis.Pool
	for _, n := range c.Nodes {
		p := n.Pool()
		pools, nodes = append(pools, p), append(nodes, redlock.Node{Name: n.Name(), Pool: p})
	}
	before := runtime.NumGoroutine()
	r, err := redlock.New(nodes, redlock.WithNodeTimeout(time.Second))
	require.NoError(t, err)
	require.LessOrEqual(t, runtime.NumGoroutine(), before, "New does nothing yet")
	use(t, c, r)
	for _, p := range pools {
		require.Equal(t, 1, p.ActiveCount())
		require.Zero(t, p.IdleCount())
	}
	require.NoError(t, r.Close(context.Background()))
	for i, p := range pools {
		require.Equal(t, 1, p.ActiveCount())
		require.Equal(t, 1, p.IdleCount())
		conn := p.Get()
		require.Equal(t, 1, p.ActiveCount(), "it is the same connection")
		pong, pingErr := redis.String(conn.Do("PING"))
		require.NoError(t, pingErr)
		require.Equal(t, "PONG", pong)
		echo, echoErr := redis.String(conn.Do("ECHO", c.Nodes[i].Name()))
		require.NoError(t, echoErr)
		require.Equal(t, c.Nodes[i].Name(), echo, "no reply was left on it")
		require.NoError(t, conn.Close())
	}
	awaitGoroutines(t, before)
	_, err = r.TryLock(t.Context(), []string{"a"}, time.Minute)
	require.ErrorIs(t, err, redlock.ErrClosed)
	awaitNoKeys(t, c, 30*time.Second)
}

// A connection that broke, or that a hung node does not answer on, must go back
// too: a pool with a limit would run dry otherwise.
func TestPoolGetsBrokenConnectionsBack(t *testing.T) {
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	var nodes []redlock.Node
	var pools []*redis.Pool
	for _, n := range c.Nodes {
		p := n.Pool()
		p.MaxActive = 2
		pools, nodes = append(pools, p), append(nodes, redlock.Node{Name: n.Name(), Pool: p})
	}
	before := runtime.NumGoroutine()
	r, err := redlock.New(nodes, redlock.WithNodeTimeout(time.Second))
	require.NoError(t, err)
	for range 4 {
		use(t, c, r)
		for _, n := range c.Nodes {
			n.Proxy().Reset()
		}
	}
	use(t, c, r)
	c.Nodes[0].Proxy().Hang()
	l, err := r.Lock(t.Context(), []string{"a"}, time.Minute)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
	start := time.Now()
	require.NoError(t, r.Close(context.Background()))
	t.Logf("Close with a hung node took %v", time.Since(start))
	require.Less(t, time.Since(start), 3*time.Second, "not until the node answers")
	for _, p := range pools {
		await(t, 30*time.Second, "the pool has all its connections", func() bool { return p.ActiveCount() == p.IdleCount() })
	}
	c.Nodes[0].Proxy().Resume()
	// The links of the proxies are goroutines as well.
	for _, n := range c.Nodes {
		n.Proxy().Reset()
	}
	awaitGoroutines(t, before)
}

func TestPoolsOfNewNodeAreClosedByClose(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	var nodes []redlock.Node
	for _, n := range c.Nodes {
		nodes = append(nodes, redlock.NewNode(n.Addr()))
		require.Zero(t, clients(t, n))
	}
	before := runtime.NumGoroutine()
	r, err := redlock.New(nodes, redlock.WithNodeTimeout(time.Second))
	require.NoError(t, err)
	use(t, c, r)
	for _, n := range c.Nodes {
		await(t, 30*time.Second, "there is one client", func() bool { return clients(t, n) == 1 })
	}
	require.NoError(t, r.Close(context.Background()))
	for _, n := range c.Nodes {
		await(t, 30*time.Second, "there is none", func() bool { return clients(t, n) == 0 })
	}
	awaitGoroutines(t, before)
	awaitNoKeys(t, c, 30*time.Second)
}
