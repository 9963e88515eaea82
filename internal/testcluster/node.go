package testcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// ErrUnsupported is returned for a fault that a kind of node can't have.
var ErrUnsupported = errors.New("testcluster: not supported by this kind of node")

// backend is a node's server, seen past the node's proxy.
type backend interface {
	// do runs one command past every fault.
	do(cmd string, args ...any) (any, error)
	stop() error
	restart(keepData bool) error
	hang() error
	resume() error
	close() error
}

// Node is one server with a fault-injecting proxy in front of it. It belongs
// to its [Cluster] and is safe for concurrent use.
type Node struct {
	name    string
	backend backend
	proxy   *Proxy

	addr       string // Where clients dial.
	proxyAddr  string
	directAddr string
	tlsAddr    string
	socket     string

	mu    sync.Mutex
	pools []*redis.Pool
}

// Name returns a short name that is unique in the cluster.
func (n *Node) Name() string { return n.name }

// Addr returns the host:port that clients dial. It leads through the proxy,
// except for real servers started without [WithProxy]. The address of a node
// made by [NewBubble] has no socket: see [Cluster.DialContext].
func (n *Node) Addr() string { return n.addr }

// ProxyAddr returns the host:port of the proxy.
func (n *Node) ProxyAddr() string { return n.proxyAddr }

// DirectAddr returns the host:port of a real server past its proxy, and ""
// for the other kinds.
func (n *Node) DirectAddr() string { return n.directAddr }

// TLSAddr returns the host:port on which a real server started with [WithTLS]
// speaks TLS, past its proxy, else "".
func (n *Node) TLSAddr() string { return n.tlsAddr }

// Socket returns the path of the Unix socket of a real server started with
// [WithUnixSocket], else "".
func (n *Node) Socket() string { return n.socket }

// Proxy returns the proxy in front of the node, which the node owns.
func (n *Node) Proxy() *Proxy { return n.proxy }

// Dial opens a client connection to [Node.Addr]. The caller closes it.
func (n *Node) Dial(ctx context.Context) (net.Conn, error) {
	if e, ok := n.backend.(*embedded); ok && !e.tcp {
		return n.proxy.Dial(ctx)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", n.addr)
}

// Conn opens a redigo connection to [Node.Addr]. The caller closes it. Only
// options about what follows the dialling have an effect.
func (n *Node) Conn(ctx context.Context, opts ...redis.DialOption) (redis.Conn, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return n.Dial(ctx) }
	opts = append(opts[:len(opts):len(opts)], redis.DialContextFunc(dial))
	return redis.DialContext(ctx, "tcp", n.addr, opts...)
}

// Pool returns a new pool of connections made by [Node.Conn]. It has no limit,
// no timeouts but those in opts, and no checks of idle connections; the caller
// may change its fields before its first use. Closing the cluster closes it.
func (n *Node) Pool(opts ...redis.DialOption) *redis.Pool {
	p := &redis.Pool{
		MaxIdle: 8,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return n.Conn(ctx, opts...)
		},
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pools = append(n.pools, p)
	return p
}

// Stop makes the node die: its connections are reset and new ones refused. A
// command that was running has either finished or will never run once Stop
// returns. Embedded nodes keep their data for [Node.Restart]; a real server is
// killed without a chance to save.
func (n *Node) Stop() error { return n.backend.stop() }

// Restart starts a stopped node again on the same address, or stops a running
// one before. The restarted node isn't hung and has lost its script cache; the
// faults set on its proxy stay. A real server can keep its data only with
// [WithAppendOnly].
func (n *Node) Restart(keepData bool) error { return n.backend.restart(keepData) }

// Keep copies the data that a real server with [WithAppendOnly] has now, for [Node.RestartKept].
func (n *Node) Keep() error {
	s, ok := n.backend.(*realServer)
	if !ok || !s.opts.appendOnly {
		return ErrUnsupported
	}
	return s.keep()
}

// RestartKept is [Node.Restart] with the data that [Node.Keep] has copied: what came later is lost. It uses the copy up.
func (n *Node) RestartKept() error {
	s, ok := n.backend.(*realServer)
	if !ok {
		return ErrUnsupported
	}
	return s.restartKept()
}

// Hang freezes the node, as SIGSTOP does to a process: connections are
// accepted but nothing is answered. An embedded node hangs its proxy instead.
func (n *Node) Hang() error { return n.backend.hang() }

// Resume ends [Node.Hang]; the node then works off what it has received.
func (n *Node) Resume() error { return n.backend.resume() }

// Slow delays every chunk of bytes in each direction by a random time from
// minimum to maximum; zeros end it. It is an error if clients don't go through
// the proxy.
func (n *Node) Slow(minimum, maximum time.Duration) error {
	if n.addr != n.proxyAddr {
		return ErrUnsupported
	}
	n.proxy.SetDelay(minimum, maximum)
	return nil
}

// SetError makes an embedded node answer every command with the error msg,
// which begins with a code such as "LOADING"; "" ends it. Commands that a
// script calls aren't affected.
func (n *Node) SetError(msg string) error {
	return n.locked(func(e *embedded) { e.errMsg = msg })
}

// SetOld makes an embedded node refuse SET with both NX and GET, as servers before Redis 7.0 do, and DELEX, or ends it.
func (n *Node) SetOld(old bool) error {
	return n.locked(func(e *embedded) { e.old = old })
}

// ShowUptime has an embedded node tell its uptime from now on, which is an hour then, without which no client knows who it is, and clients
// leave it no notes of their set of nodes. OnCommand hears of these from now on.
func (n *Node) ShowUptime() error {
	return n.locked(func(e *embedded) { e.began = time.Now().Add(-time.Hour) })
}

// SetRate has an embedded node's clock run fast or slow from now on: keys expire by it, and PTTL and TIME say what it
// shows. 1 is the rate of the test's clock.
func (n *Node) SetRate(rate float64) error {
	return n.embedded(func(e *embedded) { e.clock.set(rate, 0) })
}

// LeapClock has an embedded node's clock leap forward: all keys that would have expired by then have.
func (n *Node) LeapClock(by time.Duration) error {
	return n.embedded(func(e *embedded) { e.clock.set(0, by) })
}

// OnCommand makes an embedded node call fn before it runs a command, with the
// command's name in upper case; nil ends that. Commands called by a script and
// those of this Node's own methods aren't reported.
//
// The calls for one connection come one after another, those of different
// connections concurrently. The function may call the node's methods: if it
// stops or restarts the node, then the command doesn't run.
func (n *Node) OnCommand(fn func(cmd string, args []string)) error {
	return n.locked(func(e *embedded) { e.onCommand = fn })
}

// locked changes an embedded server with its lock held.
func (n *Node) locked(change func(e *embedded)) error {
	return n.embedded(func(e *embedded) {
		e.mu.Lock()
		defer e.mu.Unlock()
		change(e)
	})
}

// embedded calls do with the node's embedded server.
func (n *Node) embedded(do func(e *embedded)) error {
	e, ok := n.backend.(*embedded)
	if !ok {
		return ErrUnsupported
	}
	do(e)
	return nil
}

func (n *Node) close() error {
	n.mu.Lock()
	pools := n.pools
	n.pools = nil
	n.mu.Unlock()
	for _, p := range pools {
		_ = p.Close()
	}
	n.proxy.Close()
	return n.backend.close()
}

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
