package testcluster

import (
	"errors"
	"syscall"
)

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
