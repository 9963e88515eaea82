package testcluster

import (
	"errors"
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
// Both ends are safe for concurrent use and honour deadlines. A reader waits on
// a condition and timers only, so that it is durably blocked in a
// testing/synctest bubble.
func Pipe() (net.Conn, net.Conn) {
	return newPipe()
}

func newPipe() (*pipeConn, *pipeConn) {
	ab, ba := newPipeLane(), newPipeLane()
	return &pipeConn{in: ba, out: ab}, &pipeConn{in: ab, out: ba}
}

// pipeLane holds the bytes that flow one way.
type pipeLane struct {
	mu      sync.Mutex
	changed *sync.Cond // Readers should look again.
	buf     []byte
	eof     bool // The writer closed: the reader gets EOF after buf.
	gone    bool // The reader closed: writes fail.
	broken  bool // The connection was reset: both sides fail at once.

	readBy, writeBy time.Time // Deadlines, by the clock of timers; zero: none.
	timer           *time.Timer
}

func newPipeLane() *pipeLane {
	l := &pipeLane{}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// update changes the lane under its lock and wakes every waiting reader.
func (l *pipeLane) update(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	l.changed.Broadcast()
}

// setReadBy moves the readers' deadline, and has it wake them.
func (l *pipeLane) setReadBy(t time.Time) {
	l.update(func() {
		if l.timer != nil {
			l.timer.Stop()
		}
		if l.readBy = byTimers(t); !t.IsZero() {
			l.timer = time.AfterFunc(time.Until(l.readBy), func() { l.update(func() {}) })
		}
	})
}

// byTimers is a deadline by the monotonic clock, which timers go by.
func byTimers(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.Now().Add(time.Until(t))
}

func isOver(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// pipeConn is one end of a pipe. It is closed once it has gone from its in.
type pipeConn struct{ in, out *pipeLane }

// Read implements [net.Conn].
func (c *pipeConn) Read(b []byte) (n int, err error) {
	l := c.in
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case l.gone:
			return 0, pipeError("read", net.ErrClosed)
		case isOver(l.readBy):
			return 0, pipeError("read", os.ErrDeadlineExceeded)
		case len(b) == 0:
			return 0, nil
		case l.broken:
			return 0, pipeError("read", syscall.ECONNRESET)
		case len(l.buf) > 0:
			n = copy(b, l.buf)
			if l.buf = l.buf[n:]; len(l.buf) == 0 {
				l.buf = nil
			}
			return n, nil
		case l.eof:
			return 0, io.EOF
		}
		l.changed.Wait()
	}
}

// Write implements [net.Conn]. It never blocks.
func (c *pipeConn) Write(b []byte) (n int, err error) {
	if c.isClosed() {
		return 0, pipeError("write", net.ErrClosed)
	}
	c.out.update(func() {
		switch {
		case isOver(c.out.writeBy):
			err = pipeError("write", os.ErrDeadlineExceeded)
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

func (c *pipeConn) isClosed() bool {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return c.in.gone
}

// Close implements [net.Conn]. What was written before is still delivered.
func (c *pipeConn) Close() error {
	c.in.update(func() { c.in.gone, c.in.buf = true, nil })
	c.in.setReadBy(time.Time{})
	c.out.update(func() { c.out.eof = true })
	return nil
}

// CloseWrite ends only the direction from this end to the other.
func (c *pipeConn) CloseWrite() error {
	if c.isClosed() {
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
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements [net.Conn].
func (c *pipeConn) SetReadDeadline(t time.Time) error {
	if c.isClosed() {
		return pipeError("set", net.ErrClosed)
	}
	c.in.setReadBy(t)
	return nil
}

// SetWriteDeadline implements [net.Conn].
func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	if c.isClosed() {
		return pipeError("set", net.ErrClosed)
	}
	c.out.update(func() { c.out.writeBy = byTimers(t) })
	return nil
}

// pipeError makes the error of a failed operation look like one of a socket,
// because the code under test may tell errors apart by their type: a missed
// deadline then shows in both errors.Is and net.Error.Timeout.
func pipeError(op string, err error) error {
	return &net.OpError{Op: op, Net: "pipe", Source: pipeAddr{}, Addr: pipeAddr{}, Err: err}
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// SyscallConn implements [syscall.Conn], as a socket does: the library looks by it whether there is something to read.
func (c *pipeConn) SyscallConn() (syscall.RawConn, error) { return rawPipe{c.in}, nil }

// A rawPipe has no descriptor to call anybody with. Reading fails if there is something to read.
type rawPipe struct{ in *pipeLane }

var errNoDescriptor = errors.New("an in-memory connection has no descriptor")

// Read implements [syscall.RawConn].
func (r rawPipe) Read(func(fd uintptr) bool) error {
	l := r.in
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone || l.broken || l.eof || len(l.buf) > 0 {
		return pipeError("read", syscall.ECONNRESET)
	}
	return nil
}

// Write implements [syscall.RawConn].
func (rawPipe) Write(func(fd uintptr) bool) error { return errNoDescriptor }

// Control implements [syscall.RawConn].
func (rawPipe) Control(func(fd uintptr)) error { return errNoDescriptor }
