package redlocktest

import (
	"errors"
	"time"

	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

// Lose makes a held lock lost: it deletes the lock's keys on every node, and makes the lock
// find out now. So no time has to pass, however long the ttl is. After the call lock.Err is
// redlock.ErrLost, the contexts of Do and KeepAlive for it end with that cause, and its
// resources are free. In the function that Do calls, lock is the argument; elsewhere
// [redlock.FromContext] has it. For a loss to somebody else, call Take after it.
//
// A quorum of nodes must answer, or the test fails: without one the lock cannot
// know. A lock that has ended before stays as it is.
func (c *Cluster) Lose(lock *redlock.Lock) {
	c.tb.Helper()
	if lock.Err() != nil {
		return // With WithTurn, the nodes' keys may belong to the next caller.
	}
	c.settle() // Otherwise a node could still store it.
	holder := lock.Holder()
	c.remove(func(value string) bool { return tokens.Digest(value) == holder }) // With turns, Token is no key's value.
	// An extension asks the nodes, and finds nothing to extend. Its ttl must be allowed: the lock has had a longer one
	// before, or nearly.
	ttl := max(time.Until(lock.Until()), time.Second)
	err := lock.Extend(c.ctx, ttl)
	switch {
	case errors.Is(err, redlock.ErrLost):
	case err == nil:
		c.tb.Errorf("redlocktest: Lose: %q is locked on the nodes of another Cluster", lock.Resources())
	default:
		c.tb.Errorf("redlocktest: Lose: the lock cannot find out: %v", err)
	}
}
