package link

import (
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

// A Config says what a link is made of.
type Config struct {
	Name           string
	Node           node.Config // New completes it
	Pool           conn.Pool
	Single         bool           // there is no other node: a caller that is alone serves the connection by itself
	ConnectTimeout time.Duration  // of an attempt to connect, if longer than node.ConnectLimit
	Scripts        []*node.Script // those that a handshake loads
	Dialect        Dialect        // nil: requests are sent unchanged
	Readiness      *Readiness

	// Report gets the facts about the node. It is called with a mutex held, the link's or that of Subscriptions, so it
	// must not wait or call the link.
	Report func(f node.Fact)
}
