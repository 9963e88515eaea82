package redlock

import (
	"context"
	"fmt"
	"io"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/conn"
)

// A Pool hands out connections to one Redis master. *redis.Pool is one.
//
// A Redlock borrows one connection, keeps it for as long as it works, and gives it back with Close. Lock calls that
// wait borrow a second one; if there is none, they poll. A connection must implement redis.ConnWithTimeout and
// redis.ConnWithContext (redigo's own do), and must allow one goroutine to Send and Flush while another one receives.
// It may keep the arguments that Send was given: they are not changed. GetContext may block and may ignore its
// context: it holds up only this node.
type Pool interface {
	GetContext(ctx context.Context) (redis.Conn, error)
}

// A PoolFunc is a Pool made of a function that makes a new connection each time. Use it for credentials that change:
// the function looks them up, and is called for each connection, even when the server has ended one because its
// credentials have expired. It may return a connection of the Pool of a node of [NewNode], even after it has used or
// wrapped that connection.
type PoolFunc func(ctx context.Context) (redis.Conn, error)

// GetContext calls f.
func (f PoolFunc) GetContext(ctx context.Context) (redis.Conn, error) { return f(ctx) }

// NewNode returns a node at an address, which is dialled when it is first needed, and again when
// the connection breaks. addr is one of
//
//	host:port
//	redis://[[user]:password@]host[:port][/db]
//	rediss://[[user]:password@]host[:port][/db]   with TLS
//	unix:///path[?db=N]   also with [user:password@] before the path
//
// valkey:// and valkeys:// mean what redis:// and rediss:// do. ?db=N may stand for /db. Nothing else may be in a
// query: options of other clients, such as client_name, are opts here. The node is named host:port[/db], or by the
// path, never with credentials. New reports a malformed address, with as much of it as cannot be a password.
//
// opts are redigo's dial options: user, password, database, client name, TLS configuration. What
// the address says wins over them. DialConnectTimeout and DialKeepAlive have no effect, as the
// Redlock bounds dials and keeps idle connections alive. Replies are bounded in size except over
// TLS, and where DialContextFunc or DialNetDial bring a socket of their own.
func NewNode(addr string, opts ...redis.DialOption) Node {
	name, d := conn.NewDialer(addr, opts...)
	return Node{Name: name, Pool: d}
}

// InDatabase returns a Pool for a [Node] that hands out p's connections, all of which must be in the given database:
// a connection in another one is refused, and that is the node's vote. Without InDatabase, the connections of a Pool
// must be in database 0 or, for a *redis.Pool, in the database of a new connection. InDatabase selects no database;
// the pool's Dial does that (redis.DialDatabase).
func InDatabase(p Pool, database int) Pool {
	return &conn.DatabasePool{Pool: p, Database: database}
}

// A Node is one Redis master: independent of the others, neither replicated to nor clustered with them.
type Node struct {
	Name string // names the node in errors and events; any text, another one for each node
	Pool Pool   // has the connections to it; see [NewNode] for one made from an address
}

// Format prints the name, whatever the verb: a Pool may have passwords.
func (n Node) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, n.Name) }

// MarshalText returns the name, for those who log JSON.
func (n Node) MarshalText() ([]byte, error) { return []byte(n.Name), nil }
