package redlock

import (
	"errors"
	"sync/atomic"

	"github.com/seed6c881748/redlock/internal/node"
)

// VoteCounts counts the votes of a node by what they said. A vote that came after its round was over is
// not counted, nor is a request that was withdrawn before it was sent.
type VoteCounts struct {
	Yes         int64
	Taken       int64 // another token held a resource
	Lost        int64 // the key was gone or another's
	Timeout     int64 // ErrNodeTimeout
	Overloaded  int64 // ErrOverloaded; of attempts that asked other nodes
	Quarantined int64 // ErrQuarantined and ErrConfigMismatch
	Failed      int64 // not connected, an error reply, or any other reason for no answer
}

// voteCounters are the counters of one node: a line of the processor's cache for itself, as the nodes'
// readers count at the same time.
type voteCounters struct {
	yes, taken, lost, timeout, overloaded, quarantined, failed atomic.Int64

	_ [8]byte
}

func (c *voteCounters) count(stance node.Stance, err error) {
	switch {
	case stance == node.Yes:
		c.yes.Add(1)
	case stance == node.No:
		c.taken.Add(1)
	case stance == node.Gone:
		c.lost.Add(1)
	case errors.Is(err, node.ErrWithdrawn): // Its release came first: nobody has asked the node.
	case errors.Is(err, ErrNodeTimeout):
		c.timeout.Add(1)
	case errors.Is(err, ErrOverloaded):
		c.overloaded.Add(1)
	case errors.Is(err, ErrQuarantined), errors.Is(err, ErrConfigMismatch):
		c.quarantined.Add(1)
	default:
		c.failed.Add(1)
	}
}

func (c *voteCounters) counts() VoteCounts {
	return VoteCounts{
		Yes: c.yes.Load(), Taken: c.taken.Load(), Lost: c.lost.Load(), Timeout: c.timeout.Load(), Overloaded: c.overloaded.Load(),
		Quarantined: c.quarantined.Load(), Failed: c.failed.Load(),
	}
}
