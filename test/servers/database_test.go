package servers

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// What real servers answer: the wrong database is found; a user who may not MOVE, so that
// it is not known, is let in.
func TestDatabaseOfAPool(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	p := n.Pool()
	selecting(t, p, 1)
	r := newPatient(t, []redlock.Node{{Name: "a", Pool: p}})
	_, err := r.TryLock(t.Context(), []string{"x"}, time.Minute)
	require.ErrorContains(t, err, "the pool's connection is in database 1, not 0")
	awaitAll(t, c, r, 20*time.Second)

	dialled := newPatient(t, []redlock.Node{{Name: "a", Pool: n.Pool(redis.DialDatabase(3))}})
	cycle(t, dialled, "x", time.Minute)

	admin(t, n, "ACL", "SETUSER", "locker", "on", ">pw", "+@all", "-move", "~*", "&*")
	user := newPatient(t, []redlock.Node{{Name: "a", Pool: n.Pool(redis.DialUsername("locker"), redis.DialPassword("pw"))}})
	cycle(t, user, "x", time.Minute)
	assert.Empty(t, keys(t, n))
}

// The database is part of the address and of the name.
func TestDatabaseOfEachNode(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithUnixSocket())
	inDB := func(n *testcluster.Node, key string) string {
		conn := adminConn(t, n, redis.DialDatabase(5))
		v, err := redis.String(conn.Do("GET", key))
		require.NoError(t, err)
		return v
	}
	nodes := []redlock.Node{
		redlock.NewNode("redis://" + c.Nodes[0].Addr() + "?db=5"),
		redlock.NewNode("unix://" + c.Nodes[1].Socket() + "?db=5"),
		redlock.NewNode(c.Nodes[2].Addr(), redis.DialDatabase(5)),
	}
	require.Equal(t, c.Nodes[0].Addr()+"/5", nodes[0].Name)
	require.Equal(t, c.Nodes[1].Socket()+"?db=5", nodes[1].Name)
	r := newPatient(t, nodes)
	l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
	require.NoError(t, err)
	await(t, 30*time.Second, "all nodes have it", func() bool {
		in, inspectErr := r.Inspect(t.Context(), "a")
		require.NoError(t, inspectErr)
		for _, n := range in.Nodes {
			if n.Err != nil || n.TokenStart == "" {
				return false
			}
		}
		return true
	})
	for _, n := range c.Nodes {
		require.Equal(t, l.Token(), inDB(n, "a"))
	}
	requireNoKeys(t, c) // In the database 0.

	// Another database is another set of locks.
	other := newPatient(t, nodesOf(c))
	cycle(t, other, "a", time.Minute)
	require.NoError(t, l.Unlock(t.Context()))
	awaitNoKeys(t, c, 30*time.Second)
}
