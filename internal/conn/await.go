package conn

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"
)

// This file is for a reader that may have to stop at any time, and leave unread replies to another reader.

// MayInterrupt reports whether Await, Interrupt, Look and HasUnread may be called: the connection must be a socket of
// the kernel, with nothing in between.
func (w *Wire) MayInterrupt() bool {
	_, past := w.link.(*socketLink)
	return canLook && past && w.socket.look.raw != nil
}

// Await waits until Receive would return without waiting, and reports whether it would. If not, Await was interrupted,
// the reply is incomplete or large, or the connection is broken: then a goroutine that may wait must call Receive. No
// bytes are lost.
func (w *Wire) Await() bool {
	in := w.socket.replies.in
	if in.Buffered() == 0 {
		if _, err := in.Peek(1); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				w.socket.broken = err
			}
			return false
		}
	}
	b, _ := in.Peek(in.Buffered())
	return isWhole(b)
}

// Interrupt makes Await return at once, until it is called with false. Any goroutine may call it.
func (w *Wire) Interrupt(on bool) {
	deadline := time.Time{}
	if on {
		deadline = time.Unix(1, 0)
	}
	_ = w.socket.Conn.SetReadDeadline(deadline) // On a broken connection, Await returns anyway.
}

// HasUnread reports whether received bytes are still unread. Only the receiver may call it.
func (w *Wire) HasUnread() bool { return w.socket.replies.in.Buffered() > 0 }

// Look returns an error if there is something to read, or the connection has ended, while no reply is due. It does not
// wait. Only the receiver may call it.
func (w *Wire) Look() error {
	if w.HasUnread() {
		return errNews
	}
	return w.socket.look.look()
}

var errNews = errors.New("the server sent something that nobody asked for")

var lineEnd = []byte("\r\n")

// isWhole reports whether b begins with a whole reply, or with one that is malformed before its end.
func isWhole(b []byte) bool {
	for values := 1; values > 0; values-- {
		line, rest, ends := bytes.Cut(b, lineEnd)
		if !ends {
			return false
		}
		b = rest
		if len(line) == 0 {
			return true
		}
		n, err := strconv.Atoi(string(line[1:]))
		if kind := line[0]; err == nil && n >= 0 && (kind == '$' || kind == '*') {
			if n > len(b) {
				return false // Each value has a byte at least.
			}
			if kind == '*' {
				values += n
			} else if n+len(lineEnd) > len(b) {
				return false
			} else {
				b = b[n+len(lineEnd):]
			}
		}
	}
	return true
}
