package testcluster

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"
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

// An embeddedClock is an embedded server's own clock, by which its keys expire. The zero value shows the time of the
// test. One that was set shows the server the time before each command; within a command it stands still.
type embeddedClock struct {
	mu    sync.Mutex // before the server's
	rate  float64    // how fast it runs; 0: it was not set
	since time.Time  // when it was last set
	shown time.Time  // what it showed then
}

// set has the clock leap forward, and run at this rate from now on; 0 is the rate that it has.
func (c *embeddedClock) set(rate float64, leap time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.shown = c.at(now).Add(leap)
	c.since, c.rate = now, cmp.Or(rate, c.rate, 1)
}

// at is what the clock shows at the time now. c.mu is held.
func (c *embeddedClock) at(now time.Time) time.Time {
	if c.rate == 0 {
		return now.UTC()
	}
	return c.shown.Add(time.Duration(float64(now.Sub(c.since)) * c.rate))
}

// show has the server see the time.
func (c *embeddedClock) show(mini *miniredis.Miniredis) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rate != 0 {
		mini.SetTime(c.at(time.Now()))
	}
}

// Client names mark those peers of the server that the hook treats in its own
// way: it has no other place for a note.
const (
	// ownName marks commands that come from a Node's methods, which no fault
	// may affect.
	ownName = "testcluster-own"
	// deadName marks a connection of an earlier life, whose further commands
	// may be in the server's buffer already.
	deadName = "testcluster-dead"
)

// embeddedVersion is the one that an embedded node gives as its own: scripts with a
// shebang, as from version 7 on, it does not know.
const embeddedVersion = "6.2.0"

// hook runs before every command of the server. It returns true if the command
// must not run.
func (e *embedded) hook(c *server.Peer, cmd string, args ...string) bool {
	nested := isNested(c)
	if e.stops(c, cmd, args, nested) || e.isLoaded(c, cmd, args) {
		return true
	}
	if !nested { // A script holds the server's lock, and its time stands still.
		e.clock.show(e.mini)
	}
	return false
}

// isLoaded answers a SCRIPT LOAD of what the server has already. Every connection of the
// library loads all its scripts, and the server would parse them each time.
func (e *embedded) isLoaded(c *server.Peer, cmd string, args []string) bool {
	if cmd != "SCRIPT" || len(args) != 2 || !strings.EqualFold(args[0], "LOAD") {
		return false
	}
	sha := fmt.Sprintf("%x", sha1.Sum([]byte(args[1])))
	known, err := redis.Ints(e.do("SCRIPT", "EXISTS", sha))
	if err != nil || known[0] != 1 {
		return false
	}
	c.WriteBulk(sha)
	return true
}

// stops is hook for whatever has to do with faults, and for INFO.
func (e *embedded) stops(c *server.Peer, cmd string, args []string, nested bool) bool {
	if cmd == "INFO" && len(args) == 1 && strings.EqualFold(args[0], "server") {
		e.mu.Lock()
		life, uptime := e.life, ""
		if !e.began.IsZero() {
			uptime = fmt.Sprintf("uptime_in_seconds:%d\r\n", time.Since(e.began)/time.Second)
		}
		e.mu.Unlock()
		c.WriteBulk(fmt.Sprintf("# Server\r\nredis_version:%s\r\nrun_id:%s%08x\r\n%s", embeddedVersion, e.runID, life, uptime))
		return true
	}
	if c.ClientName == ownName || nested {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	life := e.life
	if fn := e.onCommand; fn != nil && !e.stopped && c.ClientName != deadName && !e.isQuietNote(args) {
		e.hooks++
		e.mu.Unlock()
		fn(cmd, args)
		e.mu.Lock()
		e.hooks--
		e.changed.Broadcast()
	}
	switch {
	case e.stopped || e.life != life || c.ClientName == deadName:
		c.ClientName = deadName
		c.Close()
		return true
	case e.errMsg != "":
		c.WriteError(e.errMsg)
		return true
	case e.old && cmd == "SET" && slices.Contains(args, "NX") && slices.Contains(args, "GET"):
		c.WriteError("ERR syntax error")
		return true
	case e.old && cmd == "DELEX":
		c.WriteError("ERR unknown command 'DELEX'")
		return true
	}
	return false
}

// isQuietNote reports whether a command asks a node of which sets of nodes its clients have, though it does not tell
// who it is. Tests count commands, and this one comes by itself.
func (e *embedded) isQuietNote(args []string) bool {
	return e.began.IsZero() && len(args) > 2 && strings.HasSuffix(args[2], "__redlock__:sets")
}

// isNested reports whether a command is called by a script. Such commands run
// with the server's lock held, so that a hook could deadlock, and they are no
// commands of a client. The server's context type isn't exported, which leaves
// reflection.
func isNested(c *server.Peer) bool {
	ctx := reflect.ValueOf(c.Ctx)
	if ctx.Kind() != reflect.Pointer || ctx.IsNil() {
		return false
	}
	nested := ctx.Elem().FieldByName("nested")
	return nested.IsValid() && nested.Kind() == reflect.Bool && nested.Bool()
}

// do runs a command in the server without a connection.
func (e *embedded) do(cmd string, args ...any) (any, error) {
	argv := []string{cmd}
	for _, a := range args {
		argv = append(argv, fmt.Sprint(a))
	}
	var reply bytes.Buffer
	peer := server.NewPeer(bufio.NewWriter(&reply))
	peer.ClientName = ownName
	e.srv.Dispatch(peer, argv)
	peer.Flush()
	return redis.NewConn(replyConn{Reader: &reply}, 0, 0).Receive()
}

// replyConn lets redigo parse a reply that is in memory already.
type replyConn struct {
	net.Conn
	io.Reader
}

// Read implements [net.Conn].
func (c replyConn) Read(b []byte) (int, error) { return c.Reader.Read(b) }

// SetReadDeadline implements [net.Conn].
func (replyConn) SetReadDeadline(time.Time) error { return nil }

// Close implements [net.Conn].
func (replyConn) Close() error { return nil }
