package conn

import (
	"errors"
	"math"
)

const (
	// maxReply bounds the bytes of one reply, and of one string in it. The largest
	// that the library asks for is the answer to a release, which names a channel, about as
	// long as a key, for each key of a lock: these have 512 KiB together at most.
	maxReply = 1 << 20

	// maxString bounds a reply that is one string: the value of a lock's key, where another program has
	// stored something else. It must not end the connection that all callers share; see node/direct.go.
	maxString = 16 << 20

	// maxValues bounds the values in one reply, nested ones included.
	maxValues = 1 << 16
)

// ErrLongReply ends a connection.
var ErrLongReply = errors.New("the server's reply is too long")

// A replyLimit follows the server's replies, ahead of redigo, and says when one is
// larger than any that the library asks for. redigo allocates what a reply
// announces before it has arrived, and reads nested arrays recursively: a few
// bytes could exhaust the memory or the stack, and neither can be recovered from.
//
// It reads what the protocol (RESP2) has in common for all types: a value begins
// with its type; a string ($) and an array (*) then have their length.
type replyLimit struct {
	kind   byte // of the value that is being read; 0: none
	alone  bool // it is a string, and the whole reply
	length int  // what its header has announced so far
	body   int  // bytes of a string that are still to come, its end included
	todo   int  // values of the reply that are still to come; 0: a new one begins
	size   int  // bytes of the reply so far
	values int  // values that the reply has announced
}

// follow reads the next bytes.
func (l *replyLimit) follow(b []byte) error {
	for len(b) > 0 {
		n := 1
		if l.body > 0 {
			n = min(l.body, len(b))
			if l.body -= n; l.body == 0 {
				l.todo--
			}
		} else {
			l.header(b[0])
		}
		b = b[n:]
		most := maxReply
		if l.alone {
			most = maxString
		}
		if l.size += n; l.size > most || l.values > maxValues || l.length > most {
			return ErrLongReply
		}
		if l.kind == 0 && l.todo == 0 {
			l.size, l.values = 0, 0
		}
	}
	return nil
}

// header reads a byte that is not a string's.
func (l *replyLimit) header(c byte) {
	switch {
	case l.kind == 0:
		if l.alone = l.todo == 0 && c == '$'; l.todo == 0 {
			l.todo = 1
		}
		l.kind, l.length = c, 0
	case c == '\n':
		l.end()
	case l.kind != '$' && l.kind != '*':
	case c == '-':
		l.length = math.MinInt // Nothing follows: null.
	case c >= '0' && c <= '9' && l.length >= 0:
		l.length = 10*l.length + int(c-'0') // No more than ten times maxReply: it ends there.
	}
}

// end is the end of a header's line, which is all of most values.
func (l *replyLimit) end() {
	kind, length := l.kind, l.length
	l.kind, l.length = 0, 0
	switch {
	case kind == '$' && length >= 0:
		l.body = length + len("\r\n")
		return
	case kind == '*' && length > 0:
		l.values += length
		l.todo += length
	}
	l.todo--
}
