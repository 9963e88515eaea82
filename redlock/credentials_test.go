package redlock

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// The password of the servers changes, and the server ends the connections that were made
// with the old one, as managed services do whose tokens expire. A PoolFunc that looks the
// password up follows; locks that are held go on.
func TestRealCredentialsThatChange(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	var issued atomic.Int64 // The current password is a function of it.
	password := func() string { return fmt.Sprintf("token-%d", issued.Load()) }
	rotate := func() {
		issued.Add(1)
		for _, n := range c.Nodes {
			admin(t, n, "ACL", "SETUSER", "app", "reset", "on", ">"+password(), "~*", "&*", "+@all")
			conn := adminConn(t, n)
			_, err := conn.Do("CLIENT", "KILL", "USER", "app")
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}
	}
	nodes := make([]Node, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = Node{Name: n.Name(), Pool: PoolFunc(func(ctx context.Context) (redis.Conn, error) {
			return NewNode(n.DirectAddr(), redis.DialUsername("app"), redis.DialPassword(password())).Pool.GetContext(ctx)
		})}
	}
	rotate()
	r := newRealRedlock(t, nodes)
	held, err := r.TryLock(t.Context(), []string{"held"}, time.Minute)
	require.NoError(t, err)
	for range 5 {
		rotate()
		await(t, 20*time.Second, "locks are got with the new password", func() bool {
			l, lockErr := r.TryLock(t.Context(), []string{"a"}, time.Minute)
			return lockErr == nil && l.Unlock(t.Context()) == nil
		})
		require.NoError(t, held.Extend(t.Context(), time.Minute))
	}
	assert.Greater(t, connects(r), int64(5))
	require.NoError(t, held.Unlock(t.Context()))
}

func TestANilPoolFuncIsRefused(t *testing.T) {
	_, err := New([]Node{{Name: "a", Pool: PoolFunc(nil)}})
	require.ErrorContains(t, err, "nil Pool")
}
