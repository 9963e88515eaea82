package conn

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"
)

// This file is for a reader that may have to stop at any time, and leave to another one what it has not read.

// MayInterrupt reports whether Await, Interrupt, Look and HasUnread may be called: the connection is the kernel's, and
// nothing is between it and the socket.
func (w *Wire) MayInterrupt() bool {
	_, past := w.link.(*socketLink)
	return canLook && past && w.socket.look.raw != nil
}

// Await waits until Receive would return without waiting, and reports whether that is so. If not, Await was interrupted,
// there is only a part of a reply, or a large one, or the connection is broken: then Receive is to be called by
// a goroutine that may wait. Nothing is lost.
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

// Interrupt has Await return, until it is called with false. It may be called from any goroutine.
func (w *Wire) Interrupt(on bool) {
	deadline := time.Time{}
	if on {
		deadline = time.Unix(1, 0)
	}
	_ = w.socket.Conn.SetReadDeadline(deadline) // Where it is broken, Await returns anyway.
}

// HasUnread reports whether something has come in that was not received. It is the receiver's to call.
func (w *Wire) HasUnread() bool { return w.socket.replies.in.Buffered() > 0 }

// Look returns an error if there is something to read though nothing is to come, be it the connection's end. It does not
// wait, and is the receiver's to call.
func (w *Wire) Look() error {
	if w.HasUnread() {
		return errNews
	}
	return w.socket.look.look()
}

var errNews = errors.New("the server sent something that nobody asked for")

var lineEnd = []byte("\r\n")

// isWhole reports whether b begins with a whole reply, or with one that is found to be malformed before its end.
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
