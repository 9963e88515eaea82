package redlock

import (
	"errors"
	"fmt"
)

// What a node votes when it gives no answer, besides its server's errors and those of the
// network. The first three are exported by package redlock.
var (
	errClosed     = errors.New("redlock: the Redlock is closed")
	errTimeout    = errors.New("redlock: node timeout")
	errOverloaded = errors.New("redlock: not asked, overloaded")

	errBacklog   = fmt.Errorf("more than %d requests wait for this node", maxBacklog)
	errCrowded   = fmt.Errorf("%w: too many earlier locks are unanswered", errOverloaded)
	errSilent    = errors.New("the node has not answered earlier requests")
	errUnreached = errors.New("not connected yet")
	errUnasked   = errors.New("the server sent a reply that nobody asked for")
	errWithdrawn = errors.New("not asked: it had been given up, or was over")
)
