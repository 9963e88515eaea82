package testkit

import (
	"context"
	"errors"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// DeafPool is what many programs have: its Dial ignores the context, has no
// timeouts, and asks the server something that may never be answered, as an
// AUTH or a SELECT does.
func DeafPool(n *testcluster.Node) *redis.Pool {
	return &redis.Pool{
		MaxIdle: 3,
		Dial: func() (redis.Conn, error) {
			conn, err := n.Conn(context.Background())
			if err != nil {
				return nil, err
			}
			if _, err = conn.Do("PING"); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return conn, nil
		},
	}
}

// Selecting is what an application does to a connection of the pool.
func Selecting(t *testing.T, p *redis.Pool, database int) {
	t.Helper()
	conn := p.Get()
	_, err := conn.Do("SELECT", database)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}
