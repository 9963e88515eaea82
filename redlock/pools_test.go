package redlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A gatedConn holds up every Flush while the gate is shut.
type gatedConn struct {
	redis.Conn

	gate func()
}

func (c gatedConn) Flush() error { c.gate(); return c.Conn.Flush() }

func (c gatedConn) DoWithTimeout(d time.Duration, cmd string, args ...any) (any, error) {
	return redis.DoWithTimeout(c.Conn, d, cmd, args...)
}

func (c gatedConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, d)
}

func (c gatedConn) DoContext(ctx context.Context, cmd string, args ...any) (any, error) {
	return redis.DoContext(c.Conn, ctx, cmd, args...)
}

func (c gatedConn) ReceiveContext(ctx context.Context) (any, error) {
	if err := ctx.Err(); err != nil { // As a wrapper that traces calls may do.
		return nil, err
	}
	return redis.ReceiveContext(c.Conn, ctx)
}

func TestPoolsWrappedConnectionIsAborted(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		pool := testcluster.WrapPool(c.Nodes[0].Pool(), func(conn redis.Conn) redis.Conn { return gatedConn{conn, func() {}} })
		r, err := redlock.New([]redlock.Node{{Name: "n", Pool: pool}})
		require.NoError(t, err)
		warm(t, r)
		c.Nodes[0].Proxy().BlackHole(true)
		_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		c.Nodes[0].Proxy().BlackHole(false)
		time.Sleep(3 * time.Second)
		_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		require.NoError(t, r.Close(t.Context()))
	})
}

// A getPool is a Pool around redigo's Get, which has no error of its own.
type getPool struct{ *redis.Pool }

func (p getPool) GetContext(context.Context) (redis.Conn, error) { return p.Get(), nil }

func TestPoolsErrorConnectionIsTheVote(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Nodes[0].Stop())
		r, err := redlock.New([]redlock.Node{{Name: "a", Pool: getPool{c.Nodes[0].Pool()}}})
		require.NoError(t, err)
		_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "connection refused")
		require.NoError(t, r.Close(t.Context()))
	})
}

// A wrapErrors wraps the errors of a connection, in which errors.As finds them.
type wrapErrors struct{ testcluster.FullConn }

func (c wrapErrors) ReceiveWithTimeout(d time.Duration) (any, error) {
	reply, err := c.FullConn.ReceiveWithTimeout(d)
	if err != nil {
		err = fmt.Errorf("traced: %w", err)
	}
	return reply, err
}

func TestPoolsWrappedNoScriptIsRecognised(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var nodes []redlock.Node
		for _, n := range c.Nodes {
			nodes = append(nodes, redlock.Node{Name: n.Name(), Pool: testcluster.WrapPool(n.Pool(), func(conn redis.Conn) redis.Conn { return wrapErrors{conn.(testcluster.FullConn)} })})
		}
		r, err := redlock.New(nodes)
		require.NoError(t, err)
		warm(t, r)
		require.NoError(t, c.FlushScripts())
		cycle(t, r, "a", ttl)
		require.NoError(t, r.Close(t.Context()))
	})
}

// The Pool of NewNode is exported, so somebody may wrap it.
func TestPoolOfNewNodeLastsThoughItIsWrapped(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r, err := redlock.New([]redlock.Node{{Name: "a", Pool: testcluster.WrapPool(dialerOf(c.Nodes[0]), func(conn redis.Conn) redis.Conn { return wrapErrors{conn.(testcluster.FullConn)} })}})
		require.NoError(t, err)
		warm(t, r)
		const longest = 1 << 20 // bytes, of one reply
		long := "ERR " + strings.Repeat("x", longest/64)
		require.NoError(t, c.Nodes[0].SetError(long))
		for range 2 * 64 { // Together twice that.
			_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.ErrorContains(t, err, long)
		}
		require.NoError(t, c.Nodes[0].SetError(""))
		assert.Equal(t, int64(1), r.Stats().Nodes[0].Connects)
		require.NoError(t, r.Close(t.Context()))
	})
}

// withOneConnection returns the nodes of a cluster with pools that have one connection each. Who
// wants another one waits for it, or is refused.
func withOneConnection(c *testcluster.Cluster, wait bool) []redlock.Node {
	nodes := make([]redlock.Node, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = redlock.Node{Name: n.Name(), Pool: &redis.Pool{
			MaxActive: 1, Wait: wait, MaxIdle: 1,
			DialContext: func(ctx context.Context) (redis.Conn, error) { return n.Conn(ctx) },
		}}
	}
	return nodes
}
