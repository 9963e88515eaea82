package redsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/redlock"
)

// The errors of calls; test for them with errors.Is. The errors of the library, such as redlock.ErrTaken, match, too.
var (
	// ErrFailed means that Lock has got no lock, and not because of what the nodes said: the quorum came too late, or its
	// context ended while it waited for another try.
	ErrFailed = errors.New("redsync: failed to acquire lock")

	// ErrExtendFailed means that Extend has failed for another reason than what the nodes said: the quorum
	// came too late, or its context ended.
	ErrExtendFailed = errors.New("redsync: failed to extend lock")

	// ErrLockAlreadyExpired means that Unlock came too late: the lock had ended, or there was none.
	ErrLockAlreadyExpired = errors.New("redsync: failed to unlock, lock was already expired")
)

// ErrTaken means that Lock has failed because others have the lock on so many nodes that no quorum is left, or
// that Extend or Valid has found that the mutex no longer has it.
type ErrTaken struct { //nolint:errname // redsync's name.
	Nodes []int // which have said so, as far as they were heard; empty if none had to be asked

	cause error // of package redlock, or nil
}

func (err ErrTaken) Error() string {
	text := fmt.Sprintf("lock already taken, locked nodes: %v", err.Nodes)
	if err.cause == nil {
		return text
	}
	return text + ": " + textOf(err.cause)
}

// textOf is the text of an error of package redlock, with the option that is here.
func textOf(err error) string {
	return strings.Replace(err.Error(), "WithWait waits longer", "WithTries makes more", 1)
}

// Unwrap returns the error of package redlock.
func (err ErrTaken) Unwrap() error { return err.cause }

// ErrNodeTaken means that another client has the lock on this node, which is not the reason why the call failed.
type ErrNodeTaken struct { //nolint:errname // redsync's name.
	Node int
}

func (err ErrNodeTaken) Error() string {
	return fmt.Sprintf("node #%d: lock already taken", err.Node)
}

// A RedisError means that this node gave no answer, or an error.
type RedisError struct {
	Node int
	Err  error // of redlock.Vote
}

func (e RedisError) Error() string { return fmt.Sprintf("node #%d: %s", e.Node, e.Err) }

// Unwrap returns Err.
func (e RedisError) Unwrap() error { return e.Err }

// A callError is an error of a call: what redsync would have said, and what the library says.
type callError struct {
	theirs []error
	ours   error
}

// Error leaves out what single nodes have said: the library says it, by their names.
func (e *callError) Error() string {
	text := ""
	for _, err := range e.theirs {
		switch err.(type) { //nolint:errorlint // They are made here.
		case *RedisError, *ErrNodeTaken:
		default:
			text += err.Error() + ": "
		}
	}
	return text + textOf(e.ours)
}

func (e *callError) Unwrap() []error { return append(e.theirs[:len(e.theirs):len(e.theirs)], e.ours) }

// lockError is that of a Lock or TryLock with so many tries.
func lockError(err error, tries int) error {
	votes, byVotes := err.(*redlock.QuorumError) //nolint:errorlint // Another error with votes is not because of them.
	switch {
	case byVotes:
	case errors.Is(err, redlock.ErrAlreadyHeld):
		return &ErrTaken{cause: err}
	case !ended(err):
		return err // An argument is wrong, or the Redlock was closed.
	case tries > 1:
		return &callError{[]error{ErrFailed}, err}
	default:
		return &RedisError{0, err} // redsync has one for each node.
	}
	taken, all := nodesWith(votes, redlock.ErrTaken), nodeErrors(votes, redlock.ErrTaken)
	switch {
	// The library does not wait for a quorum of refusals where fewer decide, as with an even number of nodes. But beside
	// errors of nodes, fewer are not the reason.
	case len(taken) >= votes.Need, len(taken) > 0 && len(taken) == len(all) && errors.Is(err, redlock.ErrTaken):
		return &ErrTaken{Nodes: taken, cause: err}
	case yes(votes) >= votes.Need:
		return &callError{[]error{ErrFailed}, err}
	default:
		return &callError{all, err}
	}
}

// extendError is that of an Extend. For a key that is gone, redsync has no other error than for one that is another's.
func extendError(err error) error {
	votes, byVotes := err.(*redlock.QuorumError) //nolint:errorlint // As above.
	switch {
	case errors.Is(err, redlock.ErrLost):
		return &ErrTaken{Nodes: nodesWith(votes, redlock.ErrLost), cause: err}
	case !byVotes && !ended(err):
		return err // The expiry is wrong, or the Redlock was closed.
	case !byVotes || yes(votes) >= votes.Need:
		return &callError{[]error{ErrExtendFailed}, err}
	default:
		return &callError{nodeErrors(votes, redlock.ErrLost), err}
	}
}

// again has the error of a Lock be that of the Extend that it was for.
func again(err error) error {
	switch e := err.(type) { //nolint:errorlint // They are made here.
	case *callError:
		if slices.Contains(e.theirs, ErrFailed) {
			return &callError{[]error{ErrExtendFailed}, e.ours}
		}
	case *RedisError: // The context has ended.
		return &callError{[]error{ErrExtendFailed}, e.Err}
	}
	return err
}

// ended reports whether an error is because a context has.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// unlockError is that of an Unlock. Nodes do not say whether a key that has no longer the mutex's value is gone.
func unlockError(err error) error {
	var votes *redlock.QuorumError
	_ = errors.As(err, &votes)
	theirs := nodeErrors(votes, nil)
	if errors.Is(err, redlock.ErrLost) {
		theirs = append([]error{ErrLockAlreadyExpired}, theirs...)
	}
	return &callError{theirs, err}
}

// nodesWith returns the numbers of the nodes whose votes match target.
func nodesWith(e *redlock.QuorumError, target error) (nodes []int) {
	if e == nil {
		return nil
	}
	for i, v := range e.Votes {
		if errors.Is(v.Err, target) {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

func yes(e *redlock.QuorumError) (n int) {
	for _, v := range e.Votes {
		if v.Err == nil {
			n++
		}
	}
	return n
}

// nodeErrors are the errors of nodes that have not said yes, as far as they were waited for. A vote that matches taken
// is an ErrNodeTaken. That a node has lost the lock, or that another client has it there, is no error of the node.
func nodeErrors(e *redlock.QuorumError, taken error) (errs []error) {
	if e == nil {
		return nil
	}
	for i, v := range e.Votes {
		switch {
		case v.Err == nil, errors.Is(v.Err, redlock.ErrPending):
		case taken != nil && errors.Is(v.Err, taken):
			errs = append(errs, &ErrNodeTaken{i})
		case !errors.Is(v.Err, redlock.ErrLost):
			errs = append(errs, &RedisError{i, v.Err})
		}
	}
	return errs
}
