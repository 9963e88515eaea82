package redlock

import (
	"errors"
	"sync/atomic"
)

type counters struct {
	holds holdCounters

	waiting, acquired, extended, repaired, unlocked, taken, noQuorum, lost, splits, raised, woken, overloaded atomic.Int64
}

// holdCounters count why holds have ended.
type holdCounters struct{ released, expired, lost, maxHold, closed atomic.Int64 }

func (c *holdCounters) count(cause error) {
	switch {
	case errors.Is(cause, ErrExpired):
		c.expired.Add(1)
	case errors.Is(cause, ErrLost):
		c.lost.Add(1)
	case errors.Is(cause, ErrMaxHold):
		c.maxHold.Add(1)
	case errors.Is(cause, ErrClosed):
		c.closed.Add(1)
	default:
		c.released.Add(1)
	}
}

func (c *holdCounters) stats() HoldsEnded {
	return HoldsEnded{
		Released: c.released.Load(), Expired: c.expired.Load(), Lost: c.lost.Load(), MaxHold: c.maxHold.Load(), Closed: c.closed.Load(),
	}
}

// failed counts a failed round by its reason.
func (c *counters) failed(reason error) {
	switch {
	case errors.Is(reason, ErrTaken):
		c.taken.Add(1)
	case errors.Is(reason, ErrNoQuorum):
		c.noQuorum.Add(1)
	case errors.Is(reason, ErrLost):
		c.lost.Add(1)
	}
}
