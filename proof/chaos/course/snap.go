package course

import (
	"math/rand/v2"
	"net"
	"regexp"
	"sync/atomic"
)

// A snapping is a connection to a server that can break with an extension or a repair, just before or after the server gets
// that: with a request that gives a time to a token which was in one before. A lock request that is repeated is one, too.
type snapping struct {
	*net.TCPConn
	now   *atomic.Bool
	known map[string]bool // Tokens.
}

// asked is a token in a request, and the time that follows it if it is to get one.
var asked = regexp.MustCompile(`\n([0-9a-f]{32})(?: owner=\S*)?\r\n(\$\d+\r\n\d+\r\n)?`)

func (s *snapping) Write(b []byte) (int, error) {
	keeps := false
	for _, m := range asked.FindAllSubmatch(b, -1) {
		token := string(m[1])
		keeps = keeps || s.known[token] && m[2] != nil
		s.known[token] = true
	}
	if len(s.known) > 10_000 {
		clear(s.known) // Mostly of what is over.
	}
	if !keeps || !s.now.Load() {
		return s.TCPConn.Write(b)
	}
	defer func() { _ = s.Close() }()
	if rand.IntN(2) == 0 {
		return 0, net.ErrClosed // It does not get there.
	}
	return s.TCPConn.Write(b)
}
