// Package conn is one connection to a Redis server: redigo's, made abortable from any
// goroutine, bounded in what it reads, batched in what it writes, and got from a pool
// that may do anything. It knows addresses, databases, errors of servers and the limits of
// replies. It does not know scripts, tokens or locks, nor that there are several servers.
package conn

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Wire is a borrowed connection that may be aborted from any goroutine, whatever else is being done with it, until
// it is given back. Besides, one goroutine may send and flush while another one receives, which redigo allows.
type Wire struct {
	link

	socket *socket // the socket of a dialer's connection; nil otherwise
	own    bool    // a dialer's: it is redigo's own connection, and nobody else has used it
	login  int     // answers to read ahead of all others
	place  *Wire   // the connection that holds its place in the pool; nil: it has its own
	said   string  // the last reply, if it was an error; only the receiver uses it
}

// A link is how a Wire reaches the server: through redigo, or past it.
type link interface {
	Err() error                                         // why the connection is broken; nil if it is not
	Send(command string, args ...any) error             // queues a command
	SendEncoded(commands []byte) (sent bool, err error) // queues what AppendCommand has made, if that need not go through redigo
	Flush() error                                       // writes what was sent
	Abort()                                             // closes the socket at once

	// GiveBack returns the connection to its pool. Nobody may be sending or receiving on it any more.
	GiveBack()

	abortable(ctx context.Context) error
	receive(timeout time.Duration) (reply any, err error)
}

// newWire returns a wire over a connection of a pool. A login goes out with the first commands.
func newWire(c redis.Conn) *Wire {
	made, own := c.(*socketConn)
	if !own {
		return &Wire{link: &redigoLink{conn: c}}
	}
	w := &Wire{link: &redigoLink{conn: made.fullConn}, socket: made.socket, own: true, login: len(made.login)}
	if made.socket != nil && !made.socket.isSecured() {
		w.link = &socketLink{conn: made.fullConn, socket: made.socket}
	}
	for _, command := range made.login {
		_ = w.Send(command[0].(string), command[1:]...) // If it fails, so does what follows.
	}
	return w
}

// Encodes reports whether Send has encoded the arguments when it returns. A user's connection may keep them, to batch
// or to log them: a slice that was sent there must not be changed any more.
func (w *Wire) Encodes() bool { return w.own }

// Abortable returns an error if a connection that a user's pool has made cannot be aborted. It does no I/O.
func (w *Wire) Abortable(ctx context.Context) error {
	if w.own {
		return nil // Through redigo, a queued login would be sent.
	}
	return w.abortable(ctx)
}

// Forget makes the kernel drop undelivered bytes when the connection is closed. Otherwise it would deliver them once
// the network is back, after a cut of any length.
func (w *Wire) Forget() {
	if w.socket == nil {
		return
	}
	if tcp, ok := w.socket.Conn.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0)
	}
}

// GiveBack returns the connection to its pool, and the one that holds its place.
func (w *Wire) GiveBack() {
	w.link.GiveBack()
	if w.place != nil {
		w.place.GiveBack()
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
	if reply, err = w.receive(timeout); err != nil || w.said != "" {
		err = w.listen(err)
	}
	return reply, err
}

// A loginError is the server's error reply to AUTH or SELECT. It ends the connection and is not the answer to a
// request, so it does not unwrap to the reply.
type loginError struct{ says string }

func (e *loginError) Error() string { return e.says }

// Came returns when the latest received reply came in. Replies that come in together share one look at the clock. Only
// the receiver may call it.
func (w *Wire) Came() time.Time {
	if w.socket == nil {
		return time.Now()
	}
	return w.socket.came
}
