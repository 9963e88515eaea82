package conn

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// maxHeld bounds what a socketLink holds back before it writes.
const maxHeld = 64 << 10

// A socketLink reads and writes past redigo, on the socket of a dialer's connection without TLS. It saves system calls:
// redigo hands over at most 4096 bytes at a time, and sets the read deadline for every reply.
type socketLink struct {
	conn   fullConn // only sets the deadline that dial options ask for
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
