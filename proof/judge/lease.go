package judge

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// leaseState is a lease: who had it last, and whether that one still has it.
type leaseState struct {
	lock  int   // its number; 0: nobody had it
	phase phase //
	fence int64 // the highest that was given
}

type phase uint8

const (
	free   phase = iota // nobody has it, and no key of the last one is left on a quorum
	held                //
	lapsed              // its holder's time is over; keys may be left, and can still be released
)

type leaseOp uint8

const (
	acquire leaseOp = iota
	extend
	unlock
	release // by token
	expire
	loss // The holder was told that it has lost the lock.
)

func (o leaseOp) String() string {
	return [...]string{"acquire", "extend", "unlock", "release", "expire", "loss"}[o]
}

// leaseInput is an operation on a lease.
type leaseInput struct {
	op    leaseOp
	lock  int
	name  string
	fence int64 // 0: not looked at
	// succeeded says that the call returned nil, proves that this means that the lock was there. Otherwise the
	// operation may have had an effect or not: the holder's time is over in any case.
	succeeded, proves bool
}

// stepLease is the lease, with the outcomes that a history shows.
func stepLease(s leaseState, in leaseInput) (bool, leaseState) {
	mine := s.lock == in.lock && s.phase != free
	switch in.op {
	case acquire:
		if s.phase == held || in.fence > 0 && in.fence <= s.fence {
			return false, s
		}
		return true, leaseState{lock: in.lock, phase: held, fence: max(s.fence, in.fence)}
	case extend:
		return mine && (s.phase == held || !in.proves), s
	case unlock:
		if in.proves && (!mine || s.phase != held) {
			return false, s
		}
	case release:
		if in.proves && !mine {
			return false, s
		}
	case expire, loss:
	}
	switch {
	case !mine:
	case in.succeeded:
		s.phase = free
	default:
		s.phase = lapsed
	}
	return true, s
}

func leaseFrom(start leaseState) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return start },
		Step: func(state, input, _ any) (bool, any) {
			return stepLease(state.(leaseState), input.(leaseInput))
		},
		DescribeOperation: func(input, _ any) string { return input.(leaseInput).String() },
		DescribeState: func(state any) string {
			s := state.(leaseState)
			return fmt.Sprintf("%s, last lock %d, fence %d", [...]string{"free", "held", "lapsed"}[s.phase], s.lock, s.fence)
		},
	}
}

func (in leaseInput) String() string {
	switch {
	case in.op == expire || in.op == loss:
		return fmt.Sprintf("%s of %s", in.op, in.name)
	case in.op == acquire && in.fence > 0:
		return fmt.Sprintf("%s of %s with the fence %d", in.op, in.name, in.fence)
	case in.succeeded:
		return fmt.Sprintf("%s of %s, which returned nil", in.op, in.name)
	default:
		return fmt.Sprintf("%s of %s, which may have had an effect", in.op, in.name)
	}
}
