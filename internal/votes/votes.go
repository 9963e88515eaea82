// Package votes counts the votes of a node by what they said.
package votes

import (
	"errors"
	"sync/atomic"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
)

// Counts are how many votes said what.
type Counts struct{ Yes, Taken, Lost, Timeout, Overloaded, Quarantined, Failed int64 }

// Counters are those of one node. They fill a line of the processor's cache, as the nodes' readers count at
// the same time.
type Counters struct {
	yes, taken, lost, timeout, overloaded, quarantined, failed atomic.Int64

	_ [8]byte
}

// Count counts a vote. A request that was withdrawn before it was sent is none: nobody has asked the node.
func (c *Counters) Count(out *node.Outcome) {
	switch {
	case out.Stance == node.Yes:
		c.yes.Add(1)
	case out.Stance == node.No:
		c.taken.Add(1)
	case out.Stance == node.Gone:
		c.lost.Add(1)
	case errors.Is(out.Err, node.ErrWithdrawn):
	case errors.Is(out.Err, node.ErrTimeout):
		c.timeout.Add(1)
	case errors.Is(out.Err, node.ErrOverloaded):
		c.overloaded.Add(1)
	case errors.Is(out.Err, quarantine.ErrQuarantined), errors.Is(out.Err, quarantine.ErrConfigMismatch):
		c.quarantined.Add(1)
	default:
		c.failed.Add(1)
	}
}

// Counts returns how many votes have been counted.
func (c *Counters) Counts() Counts {
	return Counts{
		Yes: c.yes.Load(), Taken: c.taken.Load(), Lost: c.lost.Load(), Timeout: c.timeout.Load(),
		Overloaded: c.overloaded.Load(), Quarantined: c.quarantined.Load(), Failed: c.failed.Load(),
	}
}
