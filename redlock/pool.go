package redlock

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

// A Pool hands out connections to one Redis master. *redis.Pool is one.
//
// Redlock borrows one connection, keeps it for as long as it works, and gives
// it back with Close. The connection must implement redis.ConnWithTimeout and
// redis.ConnWithContext (redigo's own do), and must allow one goroutine to Send
// and Flush while another one receives. GetContext may block and may ignore its
// context: it holds up nobody but this node.
type Pool interface {
	GetContext(ctx context.Context) (redis.Conn, error)
}

// A PoolFunc is a Pool made of a function that makes a new connection each time. It is
// the way to credentials that change: the function looks them up, and is called for each
// connection, also when the server has ended one because its credentials have expired.
// What a node's Pool of [NewNode] returns may be returned as it is.
type PoolFunc func(ctx context.Context) (redis.Conn, error)

// GetContext calls f.
func (f PoolFunc) GetContext(ctx context.Context) (redis.Conn, error) { return f(ctx) }
