package redlock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A keepingConn sends what it is given when it is flushed, as one that batches does, and keeps it for good, as
// one that logs does. That is allowed: nothing says that the arguments are the caller's again. Its errors are wrapped.
type keepingConn struct {
	testcluster.FullConn

	log   *keptLog
	queue []keptCommand
}

type keptCommand struct {
	name       string
	args, were []any // what it was given, and a copy of that
}

type keptLog struct {
	mu  sync.Mutex
	all []keptCommand
}

func (c *keepingConn) Send(name string, args ...any) error {
	c.queue = append(c.queue, keptCommand{name, args, slices.Clone(args)})
	return nil
}

func (c *keepingConn) Flush() error {
	for _, q := range c.queue {
		if err := c.FullConn.Send(q.name, q.args...); err != nil {
			return err
		}
	}
	c.log.mu.Lock()
	c.log.all = append(c.log.all, c.queue...)
	c.log.mu.Unlock()
	c.queue = nil
	return c.FullConn.Flush()
}

func (c *keepingConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	reply, err := c.FullConn.ReceiveWithTimeout(d)
	if err != nil {
		err = fmt.Errorf("traced: %w", err)
	}
	return reply, err
}

// requireUnchanged checks that nobody has changed what connections were given.
func (k *keptLog) requireUnchanged(t *testing.T) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, q := range k.all {
		require.Equal(t, q.were, q.args, q.name)
	}
}

// Or locks are granted on nodes that have no key of them.
func TestPoolsConnectionMayKeepWhatItIsGiven(t *testing.T) {
	for name, opts := range map[string][]redlock.Option{"plain": nil, "fences": {redlock.WithFencing()}} {
		runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
			log, nodes := new(keptLog), nodesOf(c)
			for i := range nodes {
				nodes[i].Pool = testcluster.WrapPool(nodes[i].Pool, func(conn redis.Conn) redis.Conn {
					return &keepingConn{FullConn: conn.(testcluster.FullConn), log: log}
				})
			}
			r := newOver(t, nodes, opts...)
			warm(t, r)
			require.NoError(t, c.FlushScripts())
			var wg sync.WaitGroup
			for i := range rounds(50, 8) {
				wg.Go(func() {
					l, err := r.TryLock(t.Context(), []string{fmt.Sprint("own", i)}, ttl)
					if assert.NoError(t, err) {
						assert.NoError(t, l.Extend(t.Context(), ttl))
						assert.NoError(t, l.Unlock(t.Context()))
					}
				})
			}
			wg.Wait()
			held := lockElsewhere(t, c, "wanted", ttl)
			startLock(t, r, []string{"wanted"}).takesOver(t, held, time.Second)
			requireReleased(t, c)
			log.requireUnchanged(t)
		})
	}
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

func (c *strangeConn) Send(command string, args ...any) error {
	c.panics("Send")
	return c.FullConn.Send(command, args...)
}

func (c *strangeConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	c.panics("Receive")
	return c.FullConn.ReceiveWithTimeout(d)
}

func (c *strangeConn) Close() error {
	defer c.panics("Close")
	return c.FullConn.Close()
}

func strangePool(n *testcluster.Node, in string) redlock.Pool {
	return testcluster.WrapPool(n.Pool(), func(conn redis.Conn) redis.Conn {
		return &strangeConn{conn.(testcluster.FullConn), in}
	})
}

// What a Pool of the user's does wrong is the vote of its node, and nobody else's harm.
func TestPoolThatMisbehavesIsItsNodesVote(t *testing.T) {
	strange := func(in string) func(*testcluster.Node) redlock.Pool {
		return func(n *testcluster.Node) redlock.Pool { return strangePool(n, in) }
	}
	always := func(get func() (redis.Conn, error)) func(*testcluster.Node) redlock.Pool {
		return func(*testcluster.Node) redlock.Pool {
			return redlock.PoolFunc(func(context.Context) (redis.Conn, error) { return get() })
		}
	}
	for name, c := range map[string]struct {
		pool func(*testcluster.Node) redlock.Pool
		vote string
	}{
		"a panic": {always(func() (redis.Conn, error) {
			panic("a bug")
		}), "the pool's GetContext panicked: a bug (at "},
		"the end of its goroutine": {always(func() (redis.Conn, error) {
			runtime.Goexit()
			return nil, nil
		}), "the pool's GetContext ended its goroutine"},
		"nothing": {always(func() (redis.Conn, error) {
			return nil, nil
		}), "the pool returned no connection and no error"},
		"a connection that is a nil pointer": {always(func() (redis.Conn, error) {
			return (*strangeConn)(nil), nil
		}), "the pool's connection panicked: runtime error: invalid memory address"},
		"none left": {func(n *testcluster.Node) redlock.Pool {
			p := &redis.Pool{MaxActive: 1, Dial: func() (redis.Conn, error) { return n.Conn(context.Background()) }}
			_ = p.Get() // The program itself has the only one.
			return p
		}, redis.ErrPoolExhausted.Error()},
		"no calls with context or timeout": {func(n *testcluster.Node) redlock.Pool {
			return testcluster.WrapPool(n.Pool(), func(conn redis.Conn) redis.Conn { return struct{ redis.Conn }{conn} })
		}, "redis.ConnWithContext"},
		"a panic in Send":    {strange("Send"), "the pool's connection panicked: a bug in Send (at "},
		"a panic in Receive": {strange("Receive"), "a bug in Receive"},
	} {
		runInBubble(t, name, 3, func(t *testing.T, cl *testcluster.Cluster) {
			nodes := nodesOf(cl)
			nodes[0].Pool = c.pool(cl.Nodes[0])
			r := newOver(t, nodes)
			cycle(t, r, "a", ttl)
			in, err := r.Inspect(t.Context(), "a")
			require.NoError(t, err)
			require.ErrorContains(t, in.Nodes[0].Err, c.vote)
		})
	}
}

func TestPoolThatPanicsWhenAConnectionIsGivenBackHarmsNobody(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes := nodesOf(c)
		nodes[0].Pool = strangePool(c.Nodes[0], "Close")
		r := newOver(t, nodes)
		warm(t, r)
		c.Nodes[0].Proxy().Reset()
		time.Sleep(5 * time.Second)
		warm(t, r)
	})
}

func TestPoolGetsBackWhatItReturnedLate(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		pool := c.Nodes[0].Pool()
		r := newOver(t, []redlock.Node{{Name: "n", Pool: redlock.PoolFunc(func(context.Context) (redis.Conn, error) {
			time.Sleep(3 * time.Second) // It ignores its context.
			return pool.Get(), nil
		})}})
		_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
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

func (c slowConn) Close() error { <-c.release; return c.FullConn.Close() }

// A node whose pool does not take its connection back cannot come up, and no call waits for that.
func TestPoolThatHangsInCloseIsNotWaitedFor(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		release, nodes := make(chan struct{}), nodesOf(c)
		for i, n := range c.Nodes[:2] {
			nodes[i].Pool = testcluster.WrapPool(n.Pool(), func(conn redis.Conn) redis.Conn { return slowConn{conn.(testcluster.FullConn), release} })
		}
		r := newOver(t, nodes)
		warm(t, r)
		c.First(2).Reset()
		time.Sleep(time.Minute)
		start := time.Now()
		refused(t, redlock.ErrNoQuorum, r, []string{"a"}, ttl)
		assert.LessOrEqual(t, time.Since(start), redlock.DefaultNodeTimeout)
		close(release)
		time.Sleep(time.Second)
		warm(t, r)
	})
}

// A vault is a user's pool that knows a password.
type vault struct {
	redlock.Pool

	Password string
}

func TestPoolPrintsNoPassword(t *testing.T) {
	t.Parallel()
	dialled := redlock.NewNode("redis://user:hunter2@host:1")
	own := redlock.Node{Name: "own", Pool: vault{dialled.Pool, "hunter2"}}
	for _, v := range []any{
		dialled, &dialled, dialled.Pool,
		[]redlock.Node{dialled, own},
		own, &own,
		map[string]redlock.Node{"n": own},
		redlock.InDatabase(dialled.Pool, 1), redlock.InDatabase(own.Pool, 1),
		[]redlock.Pool{redlock.InDatabase(own.Pool, 1)},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d"} {
			require.NotContains(t, fmt.Sprintf(verb, v), "hunter2", "%s of %T", verb, v)
		}
		text, _ := json.Marshal(v) //nolint:errchkjson // A Dialer has functions, for which there is no JSON.
		require.NotContains(t, string(text), "hunter2")
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("text", "v", v)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("json", "v", v)
		require.NotContains(t, log.String(), "hunter2")
	}
	text, err := json.Marshal([]redlock.Node{dialled, own})
	require.NoError(t, err)
	require.JSONEq(t, `["host:1", "own"]`, string(text))
	require.Equal(t, "host:1", fmt.Sprint(dialled))
}

// A pool that the application uses, too, may hand out a connection on which it has selected another database.
func TestPoolHasADatabase(t *testing.T) {
	type pool = func(t *testing.T, p *redis.Pool) redlock.Pool
	own := func(_ *testing.T, p *redis.Pool) redlock.Pool { return p }
	selected := func(database int) pool { // By the application.
		return func(t *testing.T, p *redis.Pool) redlock.Pool { t.Helper(); selecting(t, p, database); return p }
	}
	named := func(database int, pool pool) pool {
		return func(t *testing.T, p *redis.Pool) redlock.Pool {
			t.Helper()
			return redlock.InDatabase(pool(t, p), database)
		}
	}
	opaque := func(_ *testing.T, p *redis.Pool) redlock.Pool { return redlock.PoolFunc(p.GetContext) }
	for name, c := range map[string]struct {
		dials int // the database
		pool  pool
		in    int // -1: refused
	}{
		"database 0":                         {0, own, 0},
		"a pool that dials another database": {3, own, 3},
		"the same, with one selected":        {3, selected(4), -1},
		"named":                              {3, named(3, own), 3},
		"named, database 0 selected":         {3, named(3, selected(0)), -1},
		"another one named":                  {3, named(4, own), -1},
		"a pool that cannot be dialled past": {3, opaque, -1},
		"the same, named":                    {3, named(3, opaque), 3},
		"that one named":                     {100, named(100, own), 100},
	} {
		runInBubble(t, name, 1, func(t *testing.T, cl *testcluster.Cluster) {
			n := cl.Nodes[0]
			r := newOver(t, []redlock.Node{{Name: "a", Pool: c.pool(t, n.Pool(redis.DialDatabase(c.dials)))}})
			l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
			if c.in < 0 {
				require.ErrorContains(t, err, "locks would exclude nobody")
				return
			}
			require.NoError(t, err)
			require.Equal(t, l.Token(), stored(t, n, c.in))
		})
	}
}

// stored returns what a node stores for x in a database.
func stored(t *testing.T, n *testcluster.Node, database int) string {
	t.Helper()
	conn, err := n.Conn(t.Context(), redis.DialDatabase(database))
	require.NoError(t, err)
	token, err := redis.String(conn.Do("GET", "x"))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	return token
}

// Once the database of a pool is known, a connection in database 0 is as wrong as others.
func TestPoolsDatabaseIsRemembered(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		p := c.Nodes[0].Pool(redis.DialDatabase(3))
		r := newOver(t, []redlock.Node{{Name: "a", Pool: p}})
		warm(t, r)
		c.Nodes[0].Proxy().Refuse(true)
		c.Nodes[0].Proxy().Reset()
		time.Sleep(time.Second)
		c.Nodes[0].Proxy().Refuse(false)
		selecting(t, p, 0) // The application is faster.
		for begin := time.Now(); r.Stats().Nodes[0].Connects == 0 || r.Stats().Nodes[0].Err == nil; time.Sleep(time.Millisecond) {
			require.Less(t, time.Since(begin), time.Minute)
		}
		time.Sleep(10 * time.Second)
		l := tryLock(t, r, []string{"x"}, ttl)
		require.Equal(t, l.Token(), stored(t, c.Nodes[0], 3))
	})
}
