package link

import (
	"errors"
	"sync/atomic"

	"github.com/seed6c881748/redlock/internal/node"
)

// VoteCounts are how many of a node's votes said what.
type VoteCounts struct{ Yes, Taken, Lost, Timeout, Overloaded, Quarantined, Failed int64 }

// Votes counts the votes of a node by what they said, for Stats. The tally that decides a round is in
// redlock/quorum.go.
type Votes struct {
	yes, taken, lost, timeout, overloaded, quarantined, failed atomic.Int64
}

// Add counts a vote. A request that was withdrawn before it was sent is none: nobody has asked
// the node. Nor is it the node's that nobody has read what it may have answered.
func (v *Votes) Add(out *node.Outcome) {
	switch {
	case out.Stance == node.Yes:
		v.yes.Add(1)
	case out.Stance == node.No:
		v.taken.Add(1)
	case out.Stance == node.Gone:
		v.lost.Add(1)
	case errors.Is(out.Err, node.ErrWithdrawn), errors.As(out.Err, new(node.StandstillError)):
	case errors.Is(out.Err, node.ErrTimeout):
		v.timeout.Add(1)
	case errors.Is(out.Err, node.ErrOverloaded):
		v.overloaded.Add(1)
	case out.Abstained:
		v.quarantined.Add(1)
	default:
		v.failed.Add(1)
	}
}

// Counts returns how many votes have been counted.
func (v *Votes) Counts() VoteCounts {
	return VoteCounts{
		Yes: v.yes.Load(), Taken: v.taken.Load(), Lost: v.lost.Load(), Timeout: v.timeout.Load(),
		Overloaded: v.overloaded.Load(), Quarantined: v.quarantined.Load(), Failed: v.failed.Load(),
	}
}
