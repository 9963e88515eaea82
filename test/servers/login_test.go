package servers

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A wrappedConn is a connection as a pool hands it out that traces or counts commands.
type wrappedConn struct{ fullConn }

type fullConn interface {
	redis.ConnWithTimeout
	redis.ConnWithContext
}

// What a node of NewNode hands out is an ordinary connection, also to a PoolFunc that uses it
// or wraps it before it returns it.
func TestAuthOfAPoolFunc(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithArgs("--requirepass", secret))
	for name, f := range map[string]func(redis.Conn) (redis.Conn, error){
		"as it is": func(c redis.Conn) (redis.Conn, error) { return c, nil },
		"used": func(c redis.Conn) (redis.Conn, error) {
			_, err := c.Do("CLIENT", "SETNAME", "locks")
			return c, err
		},
		"used piece by piece": func(c redis.Conn) (redis.Conn, error) {
			if err := c.Send("ECHO", "mine"); err != nil {
				return nil, err
			}
			if err := c.Flush(); err != nil {
				return nil, err
			}
			reply, err := redis.String(c.Receive())
			assert.Equal(t, "mine", reply)
			return c, err
		},
		"wrapped": func(c redis.Conn) (redis.Conn, error) { return wrappedConn{c.(fullConn)}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			nodes := func(database string) []redlock.Node {
				all := make([]redlock.Node, len(c.Nodes))
				for i, n := range c.Nodes {
					inner := redlock.NewNode("redis://:" + url.QueryEscape(secret) + "@" + n.DirectAddr() + database)
					all[i] = redlock.Node{Name: n.Name(), Pool: redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
						conn, err := inner.Pool.GetContext(ctx)
						if err != nil {
							return nil, err
						}
						return f(conn)
					})}
				}
				return all
			}
			r := newPatient(t, nodes(""))
			for range 10 {
				l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
				require.NoError(t, err)
				require.NoError(t, l.Unlock(t.Context()))
			}
			_, err := newPatient(t, nodes("/99")).TryLock(t.Context(), []string{"a"}, time.Minute)
			require.ErrorIs(t, err, redlock.ErrNoQuorum, "there is no such database")
			require.ErrorContains(t, err, "DB index is out of range")
		})
	}
}
