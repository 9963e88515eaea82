package redigo_test

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/redsync/internal/conntest"
	"github.com/seed6c881748/redlock/integrations/redsync/redis/redigo"
	"github.com/seed6c881748/redlock/internal/testcluster"
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
	conntest.Run(t, redigo.NewPool(p))
	conntest.Locks(t, redigo.NewPool(p), redigo.NewPool(poolOf(t, n)), func(name string) string {
		value, _, err := n.Get(name)
		require.NoError(t, err)
		return value
	})
	assert.LessOrEqual(t, p.ActiveCount(), 2)
	conntest.Refused(t, redigo.NewPool(nil), "redigo.NewPool was given nil")
}
