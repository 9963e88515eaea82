package node

import (
	"errors"
	"sync/atomic"
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
func (v *Votes) Add(out *Outcome) {
	switch {
	case out.Stance == Yes:
		v.yes.Add(1)
	case out.Stance == No:
		v.taken.Add(1)
	case out.Stance == Gone:
		v.lost.Add(1)
	case errors.Is(out.Err, ErrWithdrawn), errors.As(out.Err, new(StandstillError)):
	case errors.Is(out.Err, ErrTimeout):
		v.timeout.Add(1)
	case errors.Is(out.Err, ErrOverloaded):
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
