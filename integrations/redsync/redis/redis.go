// Package redis has the types of github.com/go-redsync/redsync/v4/redis: what redsync.New takes, and what pools of this
// module are.
package redis

import (
	"context"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// A Pool hands out connections to one Redis server. Mutexes do not use them: those of redsync.New lock on the node that
// a Pool has if it is a [NodePool], as those of the packages redigo and goredis are. With any other, each of their calls
// fails.
type Pool interface {
	Get(ctx context.Context) (Conn, error)
}

// A NodePool is a Pool whose server can be a node of a Redlock. A Pool of your own becomes one by these methods.
type NodePool interface {
	Pool

	// Client returns what the pool is of, which must be comparable: pools of the same client have one node, and Redsyncs
	// with the same clients share the connections to their nodes. It does no I/O.
	Client() any

	// Node returns the node; without a name, it gets one. It does no I/O. A warning is logged. An error says why there is
	// no node, and what to do: it is logged, too, and each call of a mutex fails with it.
	Node() (node redlock.Node, warning string, err error)
}

// Conn is a single Redis connection.
type Conn interface {
	Get(name string) (string, error)
	Set(name string, value string) (bool, error)
	SetNX(name string, value string, expiry time.Duration) (bool, error)
	Eval(script *Script, keysAndArgs ...any) (any, error)
	ScriptLoad(script *Script) error
	PTTL(name string) (time.Duration, error)
	Close() error
}

// Script has the source of a Lua script, its hash, and how many of its arguments are keys.
type Script struct {
	KeyCount int
	Src      string
	Hash     string
}

// NewScript returns a Script. With a keyCount below 0, the first argument says how many of the others are keys.
func NewScript(keyCount int, src, hash string) *Script {
	return &Script{keyCount, src, hash}
}
