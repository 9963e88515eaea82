package testcluster

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Pipe returns the two ends of an in-memory connection. Unlike [net.Pipe] it
// buffers without a limit: a write never waits for the other end to read, as a
// pipelined handshake needs, where the client sends several commands before it
// reads the first reply.
//
// Both ends are safe for concurrent use and honour deadlines. They block on
// channels and timers only, so that a goroutine waiting on one is durably
// blocked in a testing/synctest bubble.
func Pipe() (net.Conn, net.Conn) {
	return newPipe()
}

func newPipe() (*pipeConn, *pipeConn) {
	ab, ba := newPipeLane(), newPipeLane()
	a := &pipeConn{in: ba, out: ab, readBy: newDeadline(), writeBy: newDeadline(), done: make(chan struct{})}
	b := &pipeConn{in: ab, out: ba, readBy: newDeadline(), writeBy: newDeadline(), done: make(chan struct{})}
	return a, b
}

// pipeLane holds the bytes that flow one way.
type pipeLane struct {
	mu      sync.Mutex
	buf     []byte
	eof     bool          // The writer closed: the reader gets EOF after buf.
	gone    bool          // The reader closed: writes fail.
	broken  bool          // The connection was reset: both sides fail at once.
	changed chan struct{} // Closed and replaced whenever a reader should look again.
}

func newPipeLane() *pipeLane {
	return &pipeLane{changed: make(chan struct{})}
}

// update changes the lane under its lock and wakes every waiting reader.
func (l *pipeLane) update(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

// take moves buffered bytes to b. It returns a channel to wait on when there
// is nothing to report yet.
func (l *pipeLane) take(b []byte) (n int, wait <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.broken:
		return 0, nil, pipeError("read", syscall.ECONNRESET)
	case len(l.buf) > 0:
		n = copy(b, l.buf)
		l.buf = l.buf[n:]
		if len(l.buf) == 0 {
			l.buf = nil
		}
		return n, nil, nil
	case l.eof:
		return 0, nil, io.EOF
	default:
		return 0, l.changed, nil
	}
}

// pipeConn is one end of a pipe.
type pipeConn struct {
	in, out         *pipeLane
	readBy, writeBy *deadline

	closeOnce sync.Once
	done      chan struct{}
}

// Read implements [net.Conn].
func (c *pipeConn) Read(b []byte) (int, error) {
	for {
		expired := c.readBy.expired()
		switch {
		case isClosed(c.done):
			return 0, pipeError("read", net.ErrClosed)
		case isClosed(expired):
			return 0, pipeError("read", os.ErrDeadlineExceeded)
		case len(b) == 0:
			return 0, nil
		}
		n, wait, err := c.in.take(b)
		if n > 0 || err != nil {
			return n, err
		}
		select {
		case <-wait:
		case <-c.done:
		case <-expired:
		}
	}
}

// Write implements [net.Conn]. It never blocks.
func (c *pipeConn) Write(b []byte) (n int, err error) {
	switch {
	case isClosed(c.done):
		return 0, pipeError("write", net.ErrClosed)
	case isClosed(c.writeBy.expired()):
		return 0, pipeError("write", os.ErrDeadlineExceeded)
	}
	c.out.update(func() {
		switch {
		case c.out.broken:
			err = pipeError("write", syscall.ECONNRESET)
		case c.out.gone, c.out.eof:
			err = pipeError("write", syscall.EPIPE)
		default:
			c.out.buf = append(c.out.buf, b...)
			n = len(b)
		}
	})
	return n, err
}

// Close implements [net.Conn]. What was written before is still delivered.
func (c *pipeConn) Close() error {
	c.closeOnce.Do(func() {
		close(c.done)
		c.out.update(func() { c.out.eof = true })
		c.in.update(func() { c.in.gone, c.in.buf = true, nil })
		c.readBy.set(time.Time{})
		c.writeBy.set(time.Time{})
	})
	return nil
}

// CloseWrite ends only the direction from this end to the other.
func (c *pipeConn) CloseWrite() error {
	if isClosed(c.done) {
		return pipeError("close", net.ErrClosed)
	}
	c.out.update(func() { c.out.eof = true })
	return nil
}

// reset breaks the connection as an RST would: bytes on their way are lost and
// the other end fails at once.
func (c *pipeConn) reset() {
	for _, l := range []*pipeLane{c.in, c.out} {
		l.update(func() { l.broken, l.buf = true, nil })
	}
	_ = c.Close()
}

// LocalAddr implements [net.Conn].
func (c *pipeConn) LocalAddr() net.Addr { return pipeAddr{} }

// RemoteAddr implements [net.Conn].
func (c *pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }

// SetDeadline implements [net.Conn].
func (c *pipeConn) SetDeadline(t time.Time) error {
	if isClosed(c.done) {
		return pipeError("set", net.ErrClosed)
	}
	c.readBy.set(t)
	c.writeBy.set(t)
	return nil
}

// SetReadDeadline implements [net.Conn].
func (c *pipeConn) SetReadDeadline(t time.Time) error {
	if isClosed(c.done) {
		return pipeError("set", net.ErrClosed)
	}
	c.readBy.set(t)
	return nil
}

// SetWriteDeadline implements [net.Conn].
func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	if isClosed(c.done) {
		return pipeError("set", net.ErrClosed)
	}
	c.writeBy.set(t)
	return nil
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
