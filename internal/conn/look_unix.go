//go:build unix && !aix

package conn

import (
	"io"
	"os"
	"syscall"
)

// canLook reports whether a connection can be looked at without waiting.
const canLook = true

// A look finds out whether there is something to read. Its parts are made once.
type look struct {
	raw   syscall.RawConn // nil: the connection is not the kernel's
	peek  func(fd uintptr) (done bool)
	space [1]byte
	found error
}

// look returns an error if there is something to read, or the connection has ended.
func (l *look) look() error {
	if l.peek == nil {
		l.peek = func(fd uintptr) bool {
			n, _, err := syscall.Recvfrom(int(fd), l.space[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			switch {
			case n > 0:
				l.found = errNews
			case err == nil:
				l.found = io.EOF
			case err != syscall.EAGAIN && err != syscall.EWOULDBLOCK:
				l.found = os.NewSyscallError("recvfrom", err)
			}
			return true
		}
	}
	l.found = nil
	if err := l.raw.Read(l.peek); err != nil {
		return err
	}
	return l.found
}
