package redlock

import (
	"context"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/conn"
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

// NewNode returns a node that is dialled when it is first needed, and again when
// the connection breaks.
//
// addr is one of
//
//	host:port
//	redis://[[user]:password@]host[:port][/db]
//	rediss://[[user]:password@]host[:port][/db]   with TLS
//	unix:///path[?db=N]   also with [user:password@] before the path
//
// opts are redigo's dial options: user, password, database, client name, TLS
// configuration; what the address says wins over them. A dial is bounded by the
// Redlock and an idle connection kept alive by it, so DialConnectTimeout and
// DialKeepAlive have no effect. Replies are bounded in size except over TLS, and
// where DialContextFunc or DialNetDial bring a socket of their own. The node is named
// host:port[/db], or by the path, never with credentials. A malformed address is
// reported by New, with as much of it as cannot be a password.
func NewNode(addr string, opts ...redis.DialOption) Node {
	name, d := conn.NewDialer(addr, opts...)
	return Node{Name: name, Pool: d}
}

// InDatabase returns a Pool for a [Node] that hands out p's connections, all of which must
// be in the given database: one that is not is refused, and is the node's vote. Without
// it, connections of a Pool must be in database 0, or, of a *redis.Pool, in the one where
// a new connection is. It selects no database; the pool's Dial does (redis.DialDatabase).
func InDatabase(p Pool, database int) Pool {
	return &conn.DatabasePool{Pool: p, Database: database}
}
