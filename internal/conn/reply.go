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

	// maxValues bounds the values in one reply, nested ones included.
	maxValues = 1 << 16
)

var errLongReply = errors.New("the server's reply is too long")

// A replyGuard follows the server's replies, ahead of redigo, and says when one is
// larger than any that the library asks for. redigo allocates what a reply
// announces before it has arrived, and reads nested arrays recursively: a few
// bytes could exhaust the memory or the stack, and neither can be recovered from.
//
// It reads what the protocol (RESP2) has in common for all types: a value begins
// with its type; a string ($) and an array (*) then have their length.
type replyGuard struct {
	kind   byte // of the value that is being read; 0: none
	length int  // what its header has announced so far
	body   int  // bytes of a string that are still to come, its end included
	todo   int  // values of the reply that are still to come; 0: a new one begins
	size   int  // bytes of the reply so far
	values int  // values that the reply has announced
}

// follow reads the next bytes.
func (g *replyGuard) follow(b []byte) error {
	for len(b) > 0 {
		n := 1
		if g.body > 0 {
			n = min(g.body, len(b))
			if g.body -= n; g.body == 0 {
				g.todo--
			}
		} else {
			g.header(b[0])
		}
		b = b[n:]
		if g.size += n; g.size > maxReply || g.values > maxValues || g.length > maxReply {
			return errLongReply
		}
		if g.kind == 0 && g.todo == 0 {
			g.size, g.values = 0, 0
		}
	}
	return nil
}

// header reads a byte that is not a string's.
func (g *replyGuard) header(c byte) {
	switch {
	case g.kind == 0:
		if g.todo == 0 {
			g.todo = 1
		}
		g.kind, g.length = c, 0
	case c == '\n':
		g.end()
	case g.kind != '$' && g.kind != '*':
	case c == '-':
		g.length = math.MinInt // Nothing follows: null.
	case c >= '0' && c <= '9' && g.length >= 0:
		g.length = 10*g.length + int(c-'0') // No more than ten times maxReply: it ends there.
	}
}

// end is the end of a header's line, which is all of most values.
func (g *replyGuard) end() {
	kind, length := g.kind, g.length
	g.kind, g.length = 0, 0
	switch {
	case kind == '$' && length >= 0:
		g.body = length + len("\r\n")
		return
	case kind == '*' && length > 0:
		g.values += length
		g.todo += length
	}
	g.todo--
}
