package redlock_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockcheck"
)

// A strangeConn is a connection that panics in one of its methods.
type strangeConn struct {
	testcluster.FullConn

	in string
}

func (c *strangeConn) panics(in string) {
	if c.in == in {
		panic("a bug in " + in)
	}
}

func (c *strangeConn) Err() error {
	c.panics("Err")
	return c.FullConn.Err()
}

func (c *strangeConn) Send(command string, args ...any) error {
	c.panics("Send")
	return c.FullConn.Send(command, args...)
}

func (c *strangeConn) Flush() error {
	c.panics("Flush")
	return c.FullConn.Flush()
}

func (c *strangeConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	c.panics("Receive")
	return c.FullConn.ReceiveWithTimeout(d)
}

func (c *strangeConn) Close() error {
	defer c.panics("Close")
	return c.FullConn.Close()
}

// What a Pool of the user's does wrong is the vote of its node, and nobody else's harm.
func TestPoolThatMisbehavesIsItsNodesVote(t *testing.T) {
	strange := func(in string) func(*testcluster.Node) redlock.Pool {
		return func(n *testcluster.Node) redlock.Pool {
			return redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
				conn, err := n.Conn(ctx)
				if err != nil {
					return nil, err
				}
				return &strangeConn{conn.(testcluster.FullConn), in}, nil
			})
		}
	}
	for name, c := range map[string]struct {
		pool func(*testcluster.Node) redlock.Pool
		vote string
	}{
		"a panic": {func(*testcluster.Node) redlock.Pool {
			return redlock.PoolFunc(func(context.Context) (redis.Conn, error) { panic("a bug") })
		}, "the pool's GetContext panicked: a bug (at "},
		"a nil pointer": {func(*testcluster.Node) redlock.Pool {
			return redlock.PoolFunc(func(context.Context) (redis.Conn, error) {
				var p *redis.Pool
				return p.Get(), nil
			})
		}, "the pool's GetContext panicked: runtime error: invalid memory address"},
		"the end of its goroutine": {func(*testcluster.Node) redlock.Pool {
			return redlock.PoolFunc(func(context.Context) (redis.Conn, error) {
				runtime.Goexit()
				return nil, nil
			})
		}, "the pool's GetContext ended its goroutine"},
		"nothing": {func(*testcluster.Node) redlock.Pool {
			return redlock.PoolFunc(func(context.Context) (redis.Conn, error) { return nil, nil })
		}, "the pool returned no connection and no error"},
		"a connection that is a nil pointer": {func(*testcluster.Node) redlock.Pool {
			return redlock.PoolFunc(func(context.Context) (redis.Conn, error) { return (*strangeConn)(nil), nil })
		}, "the pool's connection panicked: runtime error: invalid memory address"},
		"a panic in Err":     {strange("Err"), "the pool's connection panicked: a bug in Err (at "},
		"a panic in Send":    {strange("Send"), "the pool's connection panicked: a bug in Send (at "},
		"a panic in Flush":   {strange("Flush"), "the pool's connection panicked: a bug in Flush (at "},
		"a panic in Receive": {strange("Receive"), "a bug in Receive"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, cl *testcluster.Cluster) {
				nodes := nodesOf(cl)
				nodes[0].Pool = c.pool(cl.Nodes[0])
				r := newOver(t, nodes)
				cycle(t, r, "a", ttl)
				in, err := r.Inspect(t.Context(), "a")
				require.NoError(t, err)
				require.ErrorContains(t, in.Nodes[0].Err, c.vote)
				report, err := redlockcheck.Run(t.Context(), nodes)
				require.NoError(t, err)
				assert.Contains(t, report.String(), "unfit reachable: ")
			})
		})
	}
}

func TestPoolThatPanicsWhenAConnectionIsGivenBackHarmsNobody(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes := nodesOf(c)
		nodes[0].Pool = redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
			conn, err := c.Nodes[0].Conn(ctx)
			if err != nil {
				return nil, err
			}
			return &strangeConn{conn.(testcluster.FullConn), "Close"}, nil
		})
		r, err := redlock.New(nodes)
		require.NoError(t, err)
		warm(t, r)
		c.Nodes[0].Proxy().Reset()
		time.Sleep(5 * time.Second)
		warm(t, r)
		require.NoError(t, r.Close(t.Context()))
	})
}

// A pool that takes its time, and ignores its context.
type latePool struct {
	*redis.Pool

	delay time.Duration
}

func (l *latePool) GetContext(context.Context) (redis.Conn, error) {
	time.Sleep(l.delay)
	return l.Get(), nil
}

func TestPoolGetsBackWhatItReturnedLate(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		pool := c.Nodes[0].Pool()
		r, err := redlock.New([]redlock.Node{{Name: "n", Pool: &latePool{pool, 3 * time.Second}}})
		require.NoError(t, err)
		_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.Error(t, err)
		time.Sleep(20 * time.Second)
		require.NoError(t, r.Close(t.Context()))
		time.Sleep(10 * time.Second)
		require.Greater(t, r.Stats().Nodes[0].Connects, int64(5))
		require.Zero(t, pool.ActiveCount()-pool.IdleCount(), "connections that were not given back")
	})
}

// A slowConn is a connection whose Close waits for the test.
type slowConn struct {
	testcluster.FullConn

	release <-chan struct{}
}

func (c *slowConn) Close() error {
	<-c.release
	return c.FullConn.Close()
}

// A node whose pool does not take its connection back cannot come up, and no call waits for that.
func TestPoolThatHangsInCloseIsNotWaitedFor(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		release := make(chan struct{})
		nodes := nodesOf(c)
		for i, n := range c.Nodes[:2] {
			nodes[i].Pool = redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
				conn, err := n.Conn(ctx)
				if err != nil {
					return nil, err
				}
				return &slowConn{conn.(testcluster.FullConn), release}, nil
			})
		}
		r := newOver(t, nodes)
		warm(t, r)
		for _, n := range c.Nodes[:2] {
			n.Proxy().Reset()
		}
		time.Sleep(node.ConnectLimit(redlock.DefaultNodeTimeout) + time.Millisecond)
		start := time.Now()
		_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.LessOrEqual(t, time.Since(start), redlock.DefaultNodeTimeout)
		close(release)
		time.Sleep(time.Second)
		warm(t, r)
	})
}
