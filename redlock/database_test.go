package redlock_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A pool that the application uses, too, hands out a connection on which it has selected
// another database. Such a connection is not used, and the pool's next one is.
func TestPoolConnectionInAnotherDatabaseIsRefused(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes := make([]redlock.Node, 3)
		for i, n := range c.Nodes {
			p := n.Pool()
			nodes[i] = redlock.Node{Name: n.Name(), Pool: p}
			selecting(t, p, 1)
		}
		r1 := newOver(t, nodes)
		r2 := newRedlock(t, c)
		_, err := r1.TryLock(t.Context(), []string{"x"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "the pool's connection is in database 1, not 0")
		time.Sleep(time.Second)
		l2, err := r2.TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		_, err = r1.TryLock(t.Context(), []string{"x"}, ttl)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, l2.Unlock(t.Context()))
		cycle(t, r1, "x", ttl)
		time.Sleep(time.Second)
	})
}

func TestPoolHasADatabase(t *testing.T) {
	for name, c := range map[string]struct {
		pool func(t *testing.T, n *testcluster.Node) redlock.Pool
		in   string // "": refused
	}{
		"database 0": {func(_ *testing.T, n *testcluster.Node) redlock.Pool { return n.Pool() }, "0"},
		"a pool that dials another database": {func(_ *testing.T, n *testcluster.Node) redlock.Pool {
			return n.Pool(redis.DialDatabase(3))
		}, "3"},
		"the same, with one selected": {func(t *testing.T, n *testcluster.Node) redlock.Pool {
			t.Helper()
			p := n.Pool(redis.DialDatabase(3))
			selecting(t, p, 4)
			return p
		}, ""},
		"named": {func(_ *testing.T, n *testcluster.Node) redlock.Pool {
			return redlock.InDatabase(n.Pool(redis.DialDatabase(3)), 3)
		}, "3"},
		"named, database 0 selected": {func(t *testing.T, n *testcluster.Node) redlock.Pool {
			t.Helper()
			p := n.Pool(redis.DialDatabase(3))
			selecting(t, p, 0)
			return redlock.InDatabase(p, 3)
		}, ""},
		"another one named": {func(_ *testing.T, n *testcluster.Node) redlock.Pool {
			return redlock.InDatabase(n.Pool(redis.DialDatabase(3)), 4)
		}, ""},
		"a pool that cannot be dialled past": {func(_ *testing.T, n *testcluster.Node) redlock.Pool {
			return redlock.PoolFunc(n.Pool(redis.DialDatabase(3)).GetContext)
		}, ""},
		"the same, named": {func(_ *testing.T, n *testcluster.Node) redlock.Pool {
			return redlock.InDatabase(redlock.PoolFunc(n.Pool(redis.DialDatabase(3)).GetContext), 3)
		}, "3"},
		"beyond those that are tried": {func(_ *testing.T, n *testcluster.Node) redlock.Pool {
			return n.Pool(redis.DialDatabase(100))
		}, ""},
		"that one named": {func(_ *testing.T, n *testcluster.Node) redlock.Pool {
			return redlock.InDatabase(n.Pool(redis.DialDatabase(100)), 100)
		}, "100"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, cl *testcluster.Cluster) {
				n := cl.Nodes[0]
				r := newOver(t, []redlock.Node{{Name: "a", Pool: c.pool(t, n)}})
				l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
				if c.in == "" {
					require.ErrorContains(t, err, "locks would exclude nobody")
					return
				}
				require.NoError(t, err)
				conn, err := n.Conn(t.Context())
				require.NoError(t, err)
				_, err = conn.Do("SELECT", c.in)
				require.NoError(t, err)
				token, err := redis.String(conn.Do("GET", "x"))
				require.NoError(t, err)
				require.NoError(t, conn.Close())
				require.Equal(t, l.Token(), token)
				require.NoError(t, l.Unlock(t.Context()))
			})
		})
	}
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
		l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		conn, err := c.Nodes[0].Conn(t.Context(), redis.DialDatabase(3))
		require.NoError(t, err)
		token, err := redis.String(conn.Do("GET", "x"))
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.Equal(t, l.Token(), token)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

func TestPoolInDatabaseChecksItsArguments(t *testing.T) {
	for want, p := range map[string]redlock.Pool{
		"database -1: must not be negative": redlock.InDatabase(&redis.Pool{}, -1),
		"nil Pool":                          redlock.InDatabase(nil, 0),
	} {
		_, err := redlock.New([]redlock.Node{{Name: "a", Pool: p}})
		require.ErrorContains(t, err, want)
	}
}
