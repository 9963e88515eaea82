package servers

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// tracedConn forwards everything, as the wrappers of tracing libraries do.
type tracedConn struct {
	redis.Conn
	calls *atomic.Int64
}

func (c tracedConn) DoWithTimeout(d time.Duration, cmd string, args ...any) (any, error) {
	c.calls.Add(1)
	return redis.DoWithTimeout(c.Conn, d, cmd, args...)
}

func (c tracedConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	c.calls.Add(1)
	return redis.ReceiveWithTimeout(c.Conn, d)
}

func (c tracedConn) DoContext(ctx context.Context, cmd string, args ...any) (any, error) {
	c.calls.Add(1)
	return redis.DoContext(c.Conn, ctx, cmd, args...)
}

func (c tracedConn) ReceiveContext(ctx context.Context) (any, error) {
	c.calls.Add(1)
	return redis.ReceiveContext(c.Conn, ctx)
}

// requireServes checks every operation, and that a connection that the servers
// have closed is replaced.
func requireServes(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
	t.Helper()
	for round := range 2 {
		awaitAll(t, c, r, patience)
		for range 20 {
			l := waitLock(t, r, []string{"a", "b"}, time.Minute)
			refused(t, redlock.ErrTaken, r, []string{"b"}, time.Minute)
			require.NoError(t, l.Extend(t.Context(), 2*time.Minute))
			in, err := r.Inspect(t.Context(), "a")
			require.NoError(t, err)
			require.True(t, in.Held)
			require.NoError(t, l.Unlock(t.Context()))
		}
		if round == 0 {
			for _, n := range c.Nodes {
				admin(t, n, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			}
		}
	}
	awaitNoKeys(t, c)
}

func TestPoolsOfEveryKind(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	var traced, borrowed atomic.Int64
	kinds := map[string]func(n *testcluster.Node) *redis.Pool{
		"redigo's defaults": func(n *testcluster.Node) *redis.Pool {
			return &redis.Pool{Dial: dialler(n)}
		},
		"context": func(n *testcluster.Node) *redis.Pool {
			return &redis.Pool{MaxIdle: 3, DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, "tcp", n.Addr())
			}}
		},
		"test on borrow": func(n *testcluster.Node) *redis.Pool {
			return &redis.Pool{MaxIdle: 3, Dial: dialler(n), TestOnBorrow: func(conn redis.Conn, _ time.Time) error {
				borrowed.Add(1)
				_, err := conn.Do("PING")
				return err
			}}
		},
		"one connection":             func(n *testcluster.Node) *redis.Pool { return &redis.Pool{MaxActive: 1, MaxIdle: 1, Dial: dialler(n)} },
		"one connection with a wait": func(n *testcluster.Node) *redis.Pool { return &redis.Pool{MaxActive: 1, Wait: true, Dial: dialler(n)} },
		"connections that get old at once": func(n *testcluster.Node) *redis.Pool {
			return &redis.Pool{MaxIdle: 3, IdleTimeout: time.Millisecond, MaxConnLifetime: time.Millisecond, Dial: dialler(n)}
		},
		"timeouts": func(n *testcluster.Node) *redis.Pool {
			const d = 5 * time.Second
			return &redis.Pool{MaxIdle: 3, Dial: dialler(n, redis.DialConnectTimeout(d), redis.DialReadTimeout(d), redis.DialWriteTimeout(d))}
		},
		"wrapped connections": func(n *testcluster.Node) *redis.Pool {
			return &redis.Pool{MaxIdle: 3, Dial: func() (redis.Conn, error) {
				conn, err := dialler(n)()
				return tracedConn{conn, &traced}, err
			}}
		},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			var nodes []redlock.Node
			var pools []*redis.Pool
			for _, n := range c.Nodes {
				p := kind(n)
				t.Cleanup(func() { _ = p.Close() })
				// The program has used the pool before, and an idle connection is in it
				// where it keeps any.
				conn := p.Get()
				_, err := conn.Do("PING")
				require.NoError(t, err)
				require.NoError(t, conn.Close())
				pools, nodes = append(pools, p), append(nodes, redlock.Node{Name: n.Name(), Pool: p})
			}
			r := newOver(t, nodes, redlock.WithNodeTimeout(patient))
			requireServes(t, c, r)
			require.NoError(t, r.Close(context.Background()))
			for _, p := range pools {
				assert.Equal(t, p.IdleCount(), p.ActiveCount(), "all connections were given back")
			}
		})
	}
	assert.Positive(t, traced.Load())
	assert.Positive(t, borrowed.Load())
}

// A pool's read timeout is about replies that somebody waits for. On a
// connection on which nobody does it must not count.
func TestPoolConnectionThatIsIdleOutlivesTheReadTimeout(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	var nodes []redlock.Node
	for _, n := range c.Nodes {
		p := &redis.Pool{Dial: dialler(n, redis.DialReadTimeout(50*time.Millisecond))}
		t.Cleanup(func() { _ = p.Close() })
		nodes = append(nodes, redlock.Node{Name: n.Name(), Pool: p})
	}
	r := newOver(t, nodes, redlock.WithNodeTimeout(patient))
	awaitAll(t, c, r, patience)
	before := connects(r)
	for range 2 {
		rest(t.Context(), time.Second)
		cycle(t, r, "a", time.Minute)
	}
	require.Equal(t, before, connects(r), "no connection was made since")
}

// These tests are not parallel: they count goroutines.

// use lets r do something, on all nodes.
func use(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
	t.Helper()
	awaitAll(t, c, r, patience)
	for range 20 {
		l := waitLock(t, r, []string{"a"}, time.Minute)
		require.NoError(t, l.Unlock(t.Context()))
	}
}

func awaitGoroutines(t *testing.T, most int) {
	t.Helper()
	await(t, patience, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= most })
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
	r := newOver(t, nodes, redlock.WithNodeTimeout(time.Second))
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
	refused(t, redlock.ErrClosed, r, []string{"a"}, time.Minute)
	awaitNoKeys(t, c)
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
	r := newOver(t, nodes, redlock.WithNodeTimeout(time.Second))
	for range 4 {
		use(t, c, r)
		for _, n := range c.Nodes {
			n.Proxy().Reset()
		}
	}
	use(t, c, r)
	c.Nodes[0].Proxy().Hang()
	l := waitLock(t, r, []string{"a"}, time.Minute)
	require.NoError(t, l.Unlock(t.Context()))
	start := time.Now()
	require.NoError(t, r.Close(context.Background()))
	t.Logf("Close with a hung node took %v", time.Since(start))
	require.Less(t, time.Since(start), 30*time.Second, "not until the node answers")
	for _, p := range pools {
		await(t, patience, "the pool has all its connections", func() bool { return p.ActiveCount() == p.IdleCount() })
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
	r := newOver(t, nodes, redlock.WithNodeTimeout(time.Second))
	use(t, c, r)
	for _, n := range c.Nodes {
		await(t, patience, "there is one client", func() bool { return clients(t, n) == 1 })
	}
	require.NoError(t, r.Close(context.Background()))
	for _, n := range c.Nodes {
		await(t, patience, "there is none", func() bool { return clients(t, n) == 0 })
	}
	awaitGoroutines(t, before)
	awaitNoKeys(t, c)
}

// What real servers answer: the wrong database is found; a user who may not MOVE, so that
// it is not known, is let in. An address is in the database that it names, or else the dial options.
func TestDatabaseOfAPool(t *testing.T) {
	c := testcluster.RunServers(t, 1, testcluster.WithUnixSocket())
	n := c.Nodes[0]
	p := n.Pool()
	selecting(t, p, 1)
	r := newPatient(t, []redlock.Node{{Name: "a", Pool: p}})
	require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, r, []string{"x"}, time.Minute), "the pool's connection is in database 1, not 0")
	awaitAll(t, c, r, patience)

	dialled := newPatient(t, []redlock.Node{{Name: "a", Pool: n.Pool(redis.DialDatabase(3))}})
	cycle(t, dialled, "x", time.Minute)

	admin(t, n, "ACL", "SETUSER", "locker", "on", ">pw", "+@all", "-move", "~*", "&*")
	user := newPatient(t, []redlock.Node{{Name: "a", Pool: n.Pool(redis.DialUsername("locker"), redis.DialPassword("pw"))}})
	cycle(t, user, "x", time.Minute)
	assert.Empty(t, keys(t, n))

	for _, addressed := range []redlock.Node{
		redlock.NewNode("redis://" + n.Addr() + "?db=5"), redlock.NewNode("unix://" + n.Socket() + "?db=5"), redlock.NewNode(n.Addr(), redis.DialDatabase(5)),
	} {
		l := tryLock(t, newPatient(t, []redlock.Node{addressed}), []string{"x"}, time.Minute)
		stored, err := redis.String(adminConn(t, n, redis.DialDatabase(5)).Do("GET", "x"))
		require.NoError(t, err, addressed.Name)
		require.Equal(t, l.Token(), stored)
		require.NoError(t, l.Unlock(t.Context()))
	}
}
