package redlock

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A QuorumError says why a round over the nodes failed. errors.Is finds exactly
// one of ErrTaken, ErrNoQuorum, ErrLost and ErrExpired in it (an ErrExpired
// also matches ErrLost). The nodes' own errors are in Votes and deliberately
// not in the chain: one slow node must not make
// errors.Is(err, context.DeadlineExceeded) true.
//
// It belongs to the caller. Repeated and simultaneous calls of Unlock return the
// same one.
type QuorumError struct {
	Op        Op       // the operation
	Resources []string // sorted
	Need      int      // the quorum: votes that were needed
	Attempt   int      // which attempt of a Lock call failed, from 1; 0 for other operations
	Votes     []Vote   // of all nodes, in the order given to New, as they were at the decision

	reason error
}

// Error names the operation, the resources, the reason and every node's vote.
func (e *QuorumError) Error() string {
	var b strings.Builder
	yes := 0
	for _, v := range e.Votes {
		if v.Err == nil {
			yes++
		}
	}
	fmt.Fprintf(&b, "redlock: %s %s: %s (%d of %d nodes said yes, %d needed",
		e.Op, listed(e.Resources), strings.TrimPrefix(e.reason.Error(), "redlock: "), yes, len(e.Votes), e.Need)
	for _, v := range e.Votes {
		b.WriteString("; ")
		b.WriteString(v.String())
	}
	b.WriteString(")")
	return b.String()
}

// clone returns a copy that shares nothing.
func (e *QuorumError) clone() *QuorumError {
	c := *e
	c.Resources, c.Votes = slices.Clone(e.Resources), slices.Clone(e.Votes)
	return &c
}

// Unwrap returns the one of ErrTaken, ErrNoQuorum, ErrLost and ErrExpired that
// the round failed with.
func (e *QuorumError) Unwrap() error { return e.reason }

// Is reports that the error of a lock matches ErrNotAcquired.
func (e *QuorumError) Is(target error) bool { return target == ErrNotAcquired && e.Op == OpLock }

// RetryAfter returns how long it takes until a quorum of nodes may grant the lock, by
// what the votes say of the holder's keys and of quarantines: for a Retry-After header,
// or to come back when it is worth it. 0 if the votes do not say, as where nodes gave no
// answer or several clients split the votes. The lock may be free earlier, as it may be
// released, and later, as it may be extended.
func (e *QuorumError) RetryAfter() time.Duration {
	if e.Op != OpLock || e.Need < 1 || len(e.Votes) < e.Need {
		return 0
	}
	left, known := freeIn(e.Votes, e.Need)
	if !known {
		return 0
	}
	return left
}

// listed is a list of resources for an error's text: not more of them than one
// reads.
func listed(resources []string) string {
	const most = 10
	if len(resources) <= most {
		return fmt.Sprintf("%q", resources)
	}
	return fmt.Sprintf("%q and %d more", resources[:most], len(resources)-most)
}

// A waitError is the error of a call that was ended, or not begun, because of
// something other than the votes: its context, Close, the lock's own end. It
// matches both that cause and what the last attempt saw.
type waitError struct {
	op        Op
	resources []string
	cause     error
	last      error
}

func (e *waitError) Error() string {
	s := fmt.Sprintf("redlock: %s %s: %s", e.op, listed(e.resources), strings.TrimPrefix(e.cause.Error(), "redlock: "))
	if e.last != nil {
		s += "; last attempt: " + strings.TrimPrefix(e.last.Error(), "redlock: ")
	}
	return s
}

// Is reports that the error of a lock matches ErrNotAcquired.
func (e *waitError) Is(target error) bool { return target == ErrNotAcquired && e.op == OpLock }

func (e *waitError) Unwrap() []error {
	if e.last == nil {
		return []error{e.cause}
	}
	return []error{e.cause, e.last}
}

// fail counts a failed round and returns the error for it.
func (r *Redlock) fail(rd *round, reason error) *QuorumError {
	r.counters.failed(reason)
	return r.quorumError(rd, reason)
}

func (r *Redlock) quorumError(rd *round, reason error) *QuorumError {
	return &QuorumError{
		Op: rd.op, Resources: slices.Clone(rd.resources), Need: r.need, Attempt: rd.attempt,
		Votes: rd.copyVotes(), reason: reason,
	}
}

// A notAcquiredError is the error of a Lock, TryLock or Do that failed before it had
// anything to do with locks.
type notAcquiredError struct{ error }

func (e notAcquiredError) Is(target error) bool { return target == ErrNotAcquired }

func (e notAcquiredError) Unwrap() error { return e.error }
