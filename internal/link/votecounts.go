package link

import (
	"errors"
	"sync/atomic"

	"github.com/seed6c881748/redlock/internal/node"
)

// Votes counts the votes of a node by what they said, for Stats. Package lease keeps the tally that decides a round.
type Votes struct {
	Yes, Taken, Lost, Timeout, Overloaded, Quarantined, Failed atomic.Int64
}

// Add counts a vote. A request that was withdrawn before it was sent is none: the node was not asked. Nor is it the
// node's fault if a standstill of this process has left its answer unread.
func (v *Votes) Add(out *node.Outcome) {
	switch {
	case out.Stance == node.Yes:
		v.Yes.Add(1)
	case out.Stance == node.No:
		v.Taken.Add(1)
	case out.Stance == node.Gone:
		v.Lost.Add(1)
	case errors.Is(out.Err, node.ErrWithdrawn), errors.As(out.Err, new(node.StandstillError)):
	case errors.Is(out.Err, node.ErrTimeout):
		v.Timeout.Add(1)
	case errors.Is(out.Err, node.ErrOverloaded):
		v.Overloaded.Add(1)
	case out.Abstained:
		v.Quarantined.Add(1)
	default:
		v.Failed.Add(1)
	}
}
