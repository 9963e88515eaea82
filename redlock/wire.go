package redlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A wire is a borrowed connection that may be aborted from any goroutine,
// whatever else is being done with it, until it is given back.
type wire struct {
	redis.Conn

	socket *socket // of a node made by NewNode; nil otherwise
	own    bool    // NewNode's: it is redigo's own connection, and nobody else has used it
	login  int     // answers to read ahead of all others

	mu    sync.Mutex
	given bool
}

func newWire(conn redis.Conn) *wire {
	w := &wire{Conn: conn}
	if c, ok := conn.(*socketConn); ok {
		w.Conn, w.socket, w.own, w.login = c.fullConn, c.socket, true, c.login
	}
	if w.socket != nil {
		w.socket.hold = true // From here on, Flush says when to write.
	}
	return w
}

// Err, Send and Flush are the connection's, but for panics of one that is not redigo's:
// they are called on goroutines of the library.
func (w *wire) Err() (err error) {
	defer recovered("the pool's connection", &err)
	return w.Conn.Err()
}

// Send queues a command.
func (w *wire) Send(command string, args ...any) (err error) {
	defer recovered("the pool's connection", &err)
	return w.Conn.Send(command, args...)
}

// Flush writes what was sent.
func (w *wire) Flush() (err error) {
	defer recovered("the pool's connection", &err)
	if err := w.Conn.Flush(); err != nil || w.socket == nil {
		return err
	}
	return w.socket.push()
}

// abort closes the socket at once. Close would first wait for outstanding
// replies, on a hung server for ever.
func (w *wire) abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.given {
		var err error
		defer recovered("the pool's connection", &err)
		_, _ = redis.ReceiveContext(w.Conn, pastTime)
	}
}

// receive reads one reply; 0 is no timeout. It is not Receive, as an idle
// connection would die of the pool's read timeout, and not ReceiveContext, as
// that reads on another goroutine, where a panic could not be caught: redigo
// panics at a reply that announces an absurd length.
func (w *wire) receive(timeout time.Duration) (reply any, err error) {
	defer func() {
		if p := recover(); p != nil {
			w.abort()
			reply, err = nil, fmt.Errorf("malformed reply: %v", p)
		}
	}()
	for ; w.login > 0; w.login-- {
		if reply, err = redis.ReceiveWithTimeout(w.Conn, timeout); isReply(err) {
			return nil, &loginError{err.Error()}
		} else if err != nil {
			return nil, err
		}
	}
	return redis.ReceiveWithTimeout(w.Conn, timeout)
}

// A loginError is what the server has answered to AUTH or SELECT. It is the end of the
// connection, not the answer to what was asked, so it does not unwrap to the reply.
type loginError struct{ says string }

func (e *loginError) Error() string { return e.says }

// giveBack returns the connection to its pool. Nobody may be sending or
// receiving on it any more.
func (w *wire) giveBack() {
	w.mu.Lock()
	w.given = true
	w.mu.Unlock()
	giveBack(w.Conn)
}

// past is a context whose deadline has passed though it is not done yet. It is
// what it takes to abort a redigo connection without waiting for it. Were it
// done, a connection that wraps redigo's and looks at Err first would not hand
// it on, and nothing would be aborted.
type past struct{ context.Context } //nolint:containedctx // It is one itself.

func (past) Deadline() (time.Time, bool) { return time.Unix(1, 0), true }

var pastTime = past{context.Background()}
