package redlock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A QuorumError says why a round over the nodes failed. errors.Is finds exactly one of ErrTaken,
// ErrNoQuorum, ErrLost and ErrExpired in it, and ErrLost also in an ErrExpired. The nodes' own
// errors are in Votes and deliberately not in the chain: one slow node must not make
// errors.Is(err, context.DeadlineExceeded) true.
//
// It belongs to the caller, who must not change it where Unlock has returned it: repeated and
// simultaneous calls of Unlock return the same one.
type QuorumError struct {
	Op        Op       // the operation
	Resources []string // sorted
	Need      int      // the quorum: votes that were needed
	Attempt   int      // which attempt of a Lock call failed, from 1; 0 for other operations
	Votes     []Vote   // of all nodes, in the order given to New, as they were at the decision

	reason error
	prefix string // of the keys
	cut    bool   // the call ended before a decision
}

// Error returns the operation, the resources with their keys, the reason and every node's vote,
// on one line.
func (e *QuorumError) Error() string {
	return fmt.Sprintf("redlock: %s %s: %s", e.Op, named(e.Resources, e.prefix), e.detail())
}

// detail is the reason and the votes.
func (e *QuorumError) detail() string {
	var b strings.Builder
	b.WriteString(plain(e.reason) + " (" + e.summary())
	for _, v := range e.Votes {
		b.WriteString("; " + v.String())
		if v.Err == ErrPending && !e.cut { //nolint:errorlint // A vote's, not what wraps it.
			b.WriteString(", as it could not change the result")
		}
	}
	b.WriteString(")")
	return b.String()
}

// summary is what the votes amount to. A quorum of yes beside an error is explained.
func (e *QuorumError) summary() string {
	yes := 0
	for _, v := range e.Votes {
		if v.Err == nil {
			yes++
		}
	}
	ended := errors.Is(e.reason, ErrLost)
	switch counted := fmt.Sprintf("%d of %d nodes", yes, len(e.Votes)); {
	case ended && (e.Op == OpUnlock || e.Op == OpRelease):
		return counted + " still had it"
	case yes >= e.Need && ended:
		return counted + " said yes, but the lock had ended by then"
	case yes >= e.Need && e.Need > 0:
		return counted + " said yes, but the ttl was used up by then"
	default:
		return fmt.Sprintf("%s said yes, %d needed", counted, e.Need)
	}
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

// Is reports whether target is ErrNotAcquired and the error is that of a lock.
func (e *QuorumError) Is(target error) bool { return target == ErrNotAcquired && e.Op == OpLock }

// RetryAfter returns how long it takes until a quorum of nodes may grant the lock, by what the
// votes say of the holder's keys and of quarantines: for a Retry-After header, or to come back
// when it is worth it. It is 0 if the votes do not say, as where nodes gave no answer or several
// clients split the votes. The lock may be free earlier, as it may be released, and later, as it
// may be extended.
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

// named is a list of resources for an error's text, not more of them than one reads, with
// their keys if these are others.
func named(resources []string, prefix string) string {
	const most = 10
	s := fmt.Sprintf("%q", resources[:min(len(resources), most)])
	if len(resources) > most {
		s += fmt.Sprintf(" and %d more", len(resources)-most)
	}
	switch {
	case prefix == "":
		return s
	case len(resources) == 1:
		return s + fmt.Sprintf(" (key %q)", prefix+resources[0])
	default:
		return s + fmt.Sprintf(" (keys with prefix %q)", prefix)
	}
}

// plain is the text of an error within that of another one.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "redlock: ") }

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
	qe, ok := e.last.(*QuorumError) //nolint:errorlint // Only what it is itself has no more to say.
	switch {
	case e.last == nil:
		return fmt.Sprintf("redlock: %s %s: %s", e.op, named(e.resources, ""), plain(e.cause))
	case !ok || e.op != qe.Op:
		return fmt.Sprintf("redlock: %s %s: %s; last attempt: %s", e.op, named(e.resources, ""), plain(e.cause), plain(e.last))
	case e.op == OpLock:
		return fmt.Sprintf("redlock: lock %s: %s; last attempt: %s", named(e.resources, qe.prefix), plain(e.cause), qe.detail())
	default:
		return fmt.Sprintf("redlock: %s %s: %s; %s", e.op, named(e.resources, qe.prefix), plain(e.cause), qe.detail())
	}
}

// Is reports that the error of a lock matches ErrNotAcquired.
func (e *waitError) Is(target error) bool { return target == ErrNotAcquired && e.op == OpLock }

func (e *waitError) Unwrap() []error {
	if e.last == nil {
		return []error{e.cause}
	}
	return []error{e.cause, e.last}
}

// A notAcquiredError is the error of a Lock, TryLock or Do that failed before it had
// anything to do with locks.
type notAcquiredError struct{ error }

func (e notAcquiredError) Is(target error) bool { return target == ErrNotAcquired }

func (e notAcquiredError) Unwrap() error { return e.error }
