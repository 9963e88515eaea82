package testcluster

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

// A FullConn is what redigo's own connections are. A wrapper that embeds it can do all that
// they can.
type FullConn interface {
	redis.ConnWithTimeout
	redis.ConnWithContext
}

// A Pool is what a client gets its connections from, redigo's or another one.
type Pool interface {
	GetContext(ctx context.Context) (redis.Conn, error)
}

// WrapPool returns a pool that wraps the connections of another one.
func WrapPool(from Pool, wrap func(redis.Conn) redis.Conn) Pool { return wrapPool{from, wrap} }

type wrapPool struct {
	from Pool
	wrap func(redis.Conn) redis.Conn
}

func (p wrapPool) GetContext(ctx context.Context) (redis.Conn, error) {
	conn, err := p.from.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	return p.wrap(conn), nil
}
