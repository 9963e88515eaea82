package testcluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// KeyState is what a node stores for one key.
type KeyState struct {
	// Value is the string stored, or "" for another type of key.
	Value string
	// TTL is the time left until the key expires, in steps of a millisecond.
	// It is negative for a key that never expires.
	TTL time.Duration
}

// Keys returns all keys of the node's database 0. Like the methods below it
// reads past every fault of the proxy; a real server that is stopped or hung
// makes it fail. An embedded node shows its data even while it is stopped.
func (n *Node) Keys() (map[string]KeyState, error) {
	names, err := redis.Strings(n.backend.do("KEYS", "*"))
	if err != nil {
		return nil, fmt.Errorf("testcluster: %s: %w", n.name, err)
	}
	keys := make(map[string]KeyState, len(names))
	for _, name := range names {
		value, ok, err := n.Get(name)
		if err != nil {
			return nil, err
		}
		ttl, err := redis.Int64(n.backend.do("PTTL", name))
		if err != nil {
			return nil, fmt.Errorf("testcluster: %s: %w", n.name, err)
		}
		// The key may have expired since it was listed.
		if ok && ttl != -2 {
			keys[name] = KeyState{Value: value, TTL: time.Duration(ttl) * time.Millisecond}
		}
	}
	return keys, nil
}

// Get returns the string stored at key, and whether the key exists.
func (n *Node) Get(key string) (value string, ok bool, err error) {
	value, err = redis.String(n.backend.do("GET", key))
	var reply redis.Error
	switch {
	case err == nil:
		return value, true, nil
	case errors.Is(err, redis.ErrNil):
		return "", false, nil
	case errors.As(err, &reply):
		// The server answered, so the key has another type.
		return "", true, nil
	}
	return "", false, fmt.Errorf("testcluster: %s: %w", n.name, err)
}

// Set stores value at key. It expires after ttl, which is rounded to
// milliseconds, or never if ttl is zero.
func (n *Node) Set(key, value string, ttl time.Duration) error {
	args := []any{key, value}
	if ttl > 0 {
		args = append(args, "PX", max(ttl.Milliseconds(), 1))
	}
	return n.run("SET", args...)
}

// Del deletes key if it exists.
func (n *Node) Del(key string) error { return n.run("DEL", key) }

// Flush deletes all keys (FLUSHALL).
func (n *Node) Flush() error { return n.run("FLUSHALL") }

// FlushScripts empties the script cache (SCRIPT FLUSH).
func (n *Node) FlushScripts() error { return n.run("SCRIPT", "FLUSH") }

// LimitMemory lets the server use so many bytes, 0 for all that there are: what needs more is refused.
func (n *Node) LimitMemory(bytes int) error { return n.run("CONFIG", "SET", "maxmemory", bytes) }

// run runs a command past every fault and ignores its reply.
func (n *Node) run(cmd string, args ...any) error {
	if _, err := n.backend.do(cmd, args...); err != nil {
		return fmt.Errorf("testcluster: %s: %w", n.name, err)
	}
	return nil
}
