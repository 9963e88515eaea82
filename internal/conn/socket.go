package conn

import (
	"bufio"
	"context"
	"net"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

// maxFirst is how much of a server's first words is kept.
const maxFirst = 16

// A socket is the network connection below redigo's, of a connection that a Dialer makes.
// Without TLS replies are read here, not by redigo.
//
// As any connection it may be read by one goroutine, written by another one, and closed from anywhere.
type socket struct {
	net.Conn

	look look

	// Of redigo's writes; a socketLink's are past them.
	begun bool // something has been written
	plain bool // it was a command

	// The reader's.
	first    string    // what the server has sent first, a few bytes of it
	came     time.Time // when what was read last came in
	broken   error     // why the connection is; whoever reads next gets it, too
	replies  replyReader
	deadline bool // one is set
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

// Write is redigo's: in its handshake, under TLS, and where a pool of the user's wraps the connection.
func (s *socket) Write(b []byte) (int, error) {
	if !s.begun && len(b) > 0 {
		s.begun, s.plain = true, b[0] == '*'
	}
	return s.Conn.Write(b)
}

// Read is redigo's, as Write. Without TLS it gets a reply only once that has been found to be harmless.
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

// A fullConn is what redigo's own connections are.
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

// maxHeld bounds what a socketLink holds back before it writes.
const maxHeld = 64 << 10

// A socketLink reads and writes past redigo, by the socket of a dialer's connection without TLS. It saves system
// calls: redigo hands over at most 4096 bytes at a time, and sets the read deadline for every reply.
type socketLink struct {
	conn   fullConn // has no part in it, but sets the deadline that dial options ask for
	socket *socket
	held   []byte // not written yet
}

func (l *socketLink) Err() error { return l.conn.Err() }

func (l *socketLink) Send(command string, args ...any) error {
	return l.hold(AppendCommand(l.held, command, args))
}

func (l *socketLink) SendEncoded(commands []byte) (sent bool, err error) {
	if len(commands) == 0 {
		return false, nil
	}
	return true, l.hold(append(l.held, commands...))
}

// hold keeps b for the next Flush, or writes it at once if it is large.
func (l *socketLink) hold(b []byte) error {
	if l.held = b; len(b) > maxHeld {
		return l.Flush()
	}
	return nil
}

func (l *socketLink) Flush() error {
	// redigo has nothing to write: this sets the deadline.
	if err := l.conn.Flush(); err != nil || len(l.held) == 0 {
		return err
	}
	_, err := l.socket.Conn.Write(l.held)
	l.held = l.held[:0]
	if cap(l.held) > 2*maxHeld { // One large command must not cost its space forever.
		l.held = nil
	}
	return err
}

func (l *socketLink) receive(timeout time.Duration) (reply any, err error) {
	if reply, err = l.socket.reply(timeout); err != nil {
		l.Abort()
		return nil, err
	}
	if refused, ok := reply.(redis.Error); ok {
		return nil, refused
	}
	return reply, nil
}

func (*socketLink) abortable(context.Context) error { return nil }

// Abort closes the connection, which redigo's own does without waiting for anything.
func (l *socketLink) Abort() { _ = l.conn.Close() }

// GiveBack closes the connection: it is in no pool.
func (l *socketLink) GiveBack() { _ = l.conn.Close() }
