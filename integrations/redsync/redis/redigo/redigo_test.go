package redigo_test

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/redsync"
	"github.com/seed6c881748/redlock/integrations/redsync/internal/conntest"
	"github.com/seed6c881748/redlock/integrations/redsync/redis/redigo"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func poolOf(t *testing.T, n *testcluster.Node) *redis.Pool {
	t.Helper()
	p := &redis.Pool{MaxIdle: 3, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", n.Addr()) }}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestPool(t *testing.T) {
	n := testcluster.RunServers(t, 1).Nodes[0]
	p := poolOf(t, n)
	m := redsync.New(redigo.NewPool(p)).NewMutex("x")
	require.NoError(t, m.Lock())
	value, _, err := n.Get("x")
	require.NoError(t, err)
	assert.Equal(t, m.Value(), value)
	require.ErrorIs(t, redsync.New(redigo.NewPool(poolOf(t, n))).NewMutex("x").TryLock(), redlock.ErrTaken)
	_, err = m.Unlock()
	require.NoError(t, err)
	assert.LessOrEqual(t, p.ActiveCount(), 2)
}

func TestNoPool(t *testing.T) {
	require.ErrorContains(t, redsync.New(redigo.NewPool(nil)).NewMutex("x").Lock(), "redigo.NewPool was given nil")
}

func TestConn(t *testing.T) {
	conntest.Run(t, redigo.NewPool(poolOf(t, testcluster.RunServers(t, 1).Nodes[0])))
}
