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

func TestPool(t *testing.T) {
	n := testcluster.RunServers(t, 1).Nodes[0]
	newPool := func() *redis.Pool {
		return &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", n.Addr()) }}
	}
	p := newPool()
	conntest.Run(t, redigo.NewPool(p))
	conntest.Locks(t, redigo.NewPool(p), redigo.NewPool(newPool()), func(name string) string {
		value, _, err := n.Get(name)
		require.NoError(t, err)
		return value
	})
	assert.LessOrEqual(t, p.ActiveCount(), 2)
	conntest.Refused(t, redigo.NewPool(nil), "redigo.NewPool was given nil")
}
