package conn

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// IdlePing is how long a connection may be silent in both directions before
// it is sent a PING: below the 60 s after which servers with `timeout 60` and
// many firewalls forget it.
const IdlePing = 15 * time.Second

// A Wire is a borrowed connection that may be aborted from any goroutine,
// whatever else is being done with it, until it is given back. Besides, one goroutine
// may send and flush while another one receives, which redigo allows.
type Wire struct {
	conn   redis.Conn
	socket *socket // of a dialer's connection; nil otherwise
	own    bool    // a dialer's: it is redigo's own connection, and nobody else has used it
	login  int     // answers to read ahead of all others
	direct bool    // the sender's: what is sent goes to the socket, not through redigo's buffer

	mu    sync.Mutex // no other of the library's is taken with it; Abort calls the connection
	given bool
}

func newWire(c redis.Conn) *Wire {
	w := &Wire{conn: c}
	if c, ok := c.(*socketConn); ok {
		w.conn, w.socket, w.own, w.login = c.fullConn, c.socket, true, c.login
	}
	if w.socket != nil {
		w.socket.hold = true // From here on, Flush says when to write.
	}
	return w
}

// Err returns why the connection is broken; nil if it is not. As in Send and Flush,
// a panic of a connection that is not redigo's is an error: they are called on goroutines of
// the library.
func (w *Wire) Err() (err error) {
	defer recovered("the pool's connection", &err)
	return w.conn.Err()
}

// Encodes reports whether Send has encoded the arguments when it returns. A connection of the user's may keep
// them, to batch or to log them: a slice that was sent there must not be changed any more.
func (w *Wire) Encodes() bool { return w.own }

// Send queues a command.
func (w *Wire) Send(command string, args ...any) (err error) {
	defer recovered("the pool's connection", &err)
	if !w.direct {
		return w.conn.Send(command, args...)
	}
	return w.hold(AppendCommand(w.socket.held, command, args))
}

// SendEncoded queues what AppendCommand has made, if that need not go through redigo.
func (w *Wire) SendEncoded(commands []byte) (sent bool, err error) {
	if !w.direct || len(commands) == 0 {
		return false, nil
	}
	return true, w.hold(append(w.socket.held, commands...))
}

// hold has the socket hold back b, or writes it if that is much.
func (w *Wire) hold(b []byte) error {
	if w.socket.held = b; len(b) > maxHeld {
		return w.Flush()
	}
	return nil
}

// Flush writes what was sent.
func (w *Wire) Flush() (err error) {
	defer recovered("the pool's connection", &err)
	// Also where it has nothing to write: it sets the deadline that dial options ask for.
	if err := w.conn.Flush(); err != nil || w.socket == nil {
		return err
	}
	w.direct = w.socket.plain // From now on nothing is left in redigo's buffer.
	return w.socket.push()
}

// Abortable returns an error if a connection behind the pool's cannot be aborted,
// which it must. The empty command that shows it does no I/O.
func (w *Wire) Abortable(ctx context.Context) (err error) {
	defer recovered("the pool's connection", &err)
	if w.own {
		return nil // With a login queued, it would be I/O.
	}
	if _, err := redis.DoContext(w.conn, ctx, ""); err != nil {
		return fmt.Errorf("the pool's connection must implement redis.ConnWithContext: %w", err)
	}
	return nil
}

// Abort closes the socket at once. Close would first wait for outstanding
// replies, on a hung server for ever.
func (w *Wire) Abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.given {
		var err error
		defer recovered("the pool's connection", &err)
		_, _ = redis.ReceiveContext(w.conn, pastTime)
	}
}

// Forget has the kernel drop what it has not delivered yet when the connection is closed. It would deliver
// that once the network is back, after a cut of any length.
func (w *Wire) Forget() {
	if w.socket == nil {
		return
	}
	if tcp, ok := w.socket.Conn.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0)
	}
}

// Receive reads one reply; a timeout of 0 is none.
func (w *Wire) Receive(timeout time.Duration) (reply any, err error) {
	for ; w.login > 0; w.login-- {
		if _, err = w.receive(timeout); IsReply(err) {
			return nil, &loginError{WithoutArguments(err).Error()}
		} else if err != nil {
			return nil, err
		}
	}
	return w.receive(timeout)
}

func (w *Wire) receive(timeout time.Duration) (reply any, err error) {
	if w.socket == nil || !w.socket.plain {
		return w.receiveByRedigo(timeout)
	}
	if reply, err = w.socket.reply(timeout); err != nil {
		w.Abort()
		return nil, err
	}
	if refused, ok := reply.(redis.Error); ok {
		return nil, refused
	}
	return reply, nil
}

// receiveByRedigo does not take redigo's Receive, as an idle connection would die of the pool's read
// timeout, and not ReceiveContext, as that reads on another goroutine, where a panic could not be
// caught: redigo panics at a reply that announces an absurd length.
func (w *Wire) receiveByRedigo(timeout time.Duration) (reply any, err error) {
	defer func() {
		if p := recover(); p != nil {
			w.Abort()
			reply, err = nil, fmt.Errorf("malformed reply: %v", p)
		}
	}()
	return redis.ReceiveWithTimeout(w.conn, timeout)
}

// A loginError is what the server has answered to AUTH or SELECT. It is the end of the
// connection, not the answer to what was asked, so it does not unwrap to the reply.
type loginError struct{ says string }

func (e *loginError) Error() string { return e.says }

// Came is when the reply that was received last came in: the many that come in together are
// spared a look at the clock. It is the receiver's to call.
func (w *Wire) Came() time.Time {
	if w.socket == nil {
		return time.Now()
	}
	return w.socket.came
}

// GiveBack returns the connection to its pool. Nobody may be sending or
// receiving on it any more.
func (w *Wire) GiveBack() {
	w.mu.Lock()
	w.given = true
	w.mu.Unlock()
	giveBack(w.conn)
}

// past is a context whose deadline has passed though it is not done yet. It is
// what it takes to abort a redigo connection without waiting for it. Were it
// done, a connection that wraps redigo's and looks at Err first would not hand
// it on, and nothing would be aborted.
type past struct{ context.Context } //nolint:containedctx // It is one itself.

func (past) Deadline() (time.Time, bool) { return time.Unix(1, 0), true }

var pastTime = past{context.Background()}
