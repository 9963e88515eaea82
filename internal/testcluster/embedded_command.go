package testcluster

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"
)

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
