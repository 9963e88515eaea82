package conn

import (
	"bufio"
	"net"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

// maxFirst is how much of a server's first words is kept.
const maxFirst = 16

// A socket is the network connection below a redigo connection that a Dialer makes. Without TLS, the socket reads the
// replies instead of redigo.
//
// Like any connection it may be read by one goroutine, written by another one, and closed from anywhere.
type socket struct {
	net.Conn

	look look

	// About redigo's writes; a socketLink writes past them.
	begun bool // something has been written
	plain bool // the first write was a command

	// Only the reader uses these.
	first    string    // what the server has sent first, a few bytes of it
	came     time.Time // when the latest bytes came in
	broken   error     // why the connection is broken; further reads return it as well
	replies  replyReader
	deadline bool // a read deadline is set
}

func newSocket(c net.Conn) *socket {
	s := &socket{Conn: c}
	if own, ok := c.(syscall.Conn); ok {
		s.look.raw, _ = own.SyscallConn()
	}
	s.replies.in = bufio.NewReader(readerFunc(s.read))
	return s
}

type readerFunc func(b []byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// isSecured reports whether there is TLS between redigo and the socket: its handshake comes first.
func (s *socket) isSecured() bool { return s.begun && !s.plain }

// Write is for redigo: in its handshake, under TLS, and where a user's pool wraps the connection.
func (s *socket) Write(b []byte) (int, error) {
	if !s.begun && len(b) > 0 {
		s.begun, s.plain = true, b[0] == '*'
	}
	return s.Conn.Write(b)
}

// Read is for redigo, as Write is. Without TLS, redigo gets a reply only once it was found to be harmless.
func (s *socket) Read(b []byte) (int, error) {
	if !s.plain {
		return s.read(b)
	}
	r := &s.replies
	if len(r.copied) == 0 {
		r.copies = true
		_, err := r.next()
		if r.copies = false; err != nil {
			r.copied = nil // redigo, or a pool that takes the connection back, may read on after an error.
			return 0, err
		}
	}
	n := copy(b, r.copied)
	r.copied = r.copied[n:]
	return n, nil
}

// read reads from the network.
func (s *socket) read(b []byte) (int, error) {
	if s.broken != nil {
		return 0, s.broken
	}
	n, err := s.Conn.Read(b)
	s.came = time.Now()
	if s.first == "" && n > 0 {
		s.first = string(b[:min(n, maxFirst)])
	}
	return n, err
}

// reply reads a reply; a timeout of 0 is none.
func (s *socket) reply(timeout time.Duration) (any, error) {
	deadline := time.Time{}
	if timeout != 0 {
		deadline = time.Now().Add(timeout)
	}
	_ = s.SetReadDeadline(deadline) // If it fails, so does the reading.
	return s.replies.next()
}

// SetReadDeadline does nothing where there is no deadline and none is to be set.
func (s *socket) SetReadDeadline(t time.Time) error {
	if t.IsZero() && !s.deadline {
		return nil
	}
	s.deadline = !t.IsZero()
	return s.Conn.SetReadDeadline(t)
}

// SetDeadline sets both deadlines.
func (s *socket) SetDeadline(t time.Time) error {
	s.deadline = true
	return s.Conn.SetDeadline(t)
}

// A fullConn has the methods of redigo's own connections.
type fullConn interface {
	redis.ConnWithTimeout
	redis.ConnWithContext
}

// A socketConn is a redigo connection whose socket is known.
type socketConn struct {
	fullConn

	socket *socket // nil: dial options have brought their own
	login  [][]any // commands that are still to be sent, ahead of all others
}
