package testcluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// StartEmbedded starts n in-memory servers, each behind a proxy that listens
// on a free loopback port. Their keys expire by the wall clock.
func StartEmbedded(n int) (*Cluster, error) {
	return newEmbeddedCluster(n, true)
}

// NewBubble starts n in-memory servers that use no sockets and only block on
// channels and timers, so that they can live in a testing/synctest bubble and
// expire keys by its fake clock. The cluster must be created, used and closed
// in the same bubble. Clients reach it by [Node.Dial], [Node.Conn],
// [Node.Pool] or [Cluster.DialContext].
func NewBubble(n int) (*Cluster, error) {
	return newEmbeddedCluster(n, false)
}

func newEmbeddedCluster(n int, tcp bool) (*Cluster, error) {
	c := &Cluster{}
	for i := range n {
		e, err := newEmbedded(tcp)
		if err != nil {
			_ = c.Close()
			return nil, err
		}
		node := &Node{name: "node" + strconv.Itoa(i+1), backend: e, proxy: e.proxy}
		c.Nodes = append(c.Nodes, node)
		node.addr = node.name + ".bubble:6379"
		if tcp {
			if node.addr, err = e.proxy.Listen(); err != nil {
				_ = c.Close()
				return nil, err
			}
		}
		node.proxyAddr = node.addr
	}
	c.SetSeed(1)
	return c, nil
}

// embedded is an in-memory server. It is never really closed before the
// cluster is: a stopped node is one whose connections are broken and refused.
type embedded struct {
	tcp   bool
	mini  *miniredis.Miniredis
	srv   *server.Server
	proxy *Proxy
	clock embeddedClock

	mu        sync.Mutex
	runID     string     // of the server, less the part that changes with every life
	changed   *sync.Cond // Signalled when conns or hooks change.
	conns     int        // Connections that the server still works on.
	hooks     int        // Those of them that are inside onCommand.
	life      int        // Counts the stops, to tell what belongs to an earlier life.
	stopped   bool
	errMsg    string
	old       bool      // it knows no SET with both NX and GET
	began     time.Time // of its uptime; zero: it does not tell that
	onCommand func(cmd string, args []string)
}

func newEmbedded(tcp bool) (*embedded, error) {
	e := &embedded{tcp: tcp, mini: miniredis.NewMiniRedis(), runID: fmt.Sprintf("%032x", rand.Uint64())}
	e.changed = sync.NewCond(&e.mu)
	e.proxy = NewProxy(e.dial)
	e.mini.ClockTTL(true)
	// The first dial starts the server without a listener.
	conn, err := e.mini.Dial()
	if err != nil {
		return nil, err
	}
	if err := conn.Close(); err != nil {
		return nil, err
	}
	e.srv = e.mini.Server()
	e.srv.SetPreHook(e.hook)
	return e, nil
}

// dial opens a connection to the server past the proxy.
func (e *embedded) dial(context.Context) (net.Conn, error) {
	e.mu.Lock()
	if e.stopped {
		e.mu.Unlock()
		return nil, errRefused()
	}
	e.conns++
	e.mu.Unlock()
	client, inner := newPipe()
	e.srv.ServeConn(&servedConn{pipeConn: inner, done: sync.OnceFunc(e.connDone)})
	return client, nil
}

func (e *embedded) connDone() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conns--
	e.changed.Broadcast()
}

// servedConn tells when the server is done with a connection. The server
// closes it only after the last command has run.
type servedConn struct {
	*pipeConn
	done func()
}

// Close implements [net.Conn].
func (c *servedConn) Close() error {
	err := c.pipeConn.Close()
	c.done()
	return err
}

func (e *embedded) stop() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	e.life++
	e.proxy.setDown(true)
	e.proxy.Kill()
	// A command inside onCommand sees the new life and won't run. Waiting for
	// it would be a deadlock if it is that function that called.
	for e.conns > e.hooks {
		e.changed.Wait()
	}
	return nil
}

func (e *embedded) restart(keepData bool) error {
	if err := e.stop(); err != nil {
		return err
	}
	if _, err := e.do("SCRIPT", "FLUSH"); err != nil {
		return err
	}
	if !keepData {
		if _, err := e.do("FLUSHALL"); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = false
	if !e.began.IsZero() {
		e.began = time.Now()
	}
	e.proxy.Resume()
	e.proxy.setDown(false)
	return nil
}

func (e *embedded) hang() error {
	e.proxy.Hang()
	return nil
}

func (e *embedded) resume() error {
	e.proxy.Resume()
	return nil
}

func (e *embedded) close() error {
	e.mini.Close()
	return nil
}
