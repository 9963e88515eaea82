package redlock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
)

// What a call can fail with; test for them with errors.Is. A failed round
// comes as a *QuorumError that wraps exactly one of the first four and has
// every node's vote.
var (
	// ErrTaken: another token holds at least one of the resources on so many
	// nodes that this attempt could not reach a quorum. Somebody else has the
	// lock, or several tried at once and another one won.
	ErrTaken = errors.New("redlock: taken")

	// ErrNoQuorum: so many nodes gave no vote (down, timed out, answering with an
	// error) that no quorum was possible whoever holds the resource; or a quorum came
	// too late to be worth anything.
	ErrNoQuorum = errors.New("redlock: no quorum")

	// ErrLost: the lock is not held any more, or its keys are gone or another's
	// on so many nodes that no quorum can be left. A lost lock is never held
	// again.
	ErrLost = errors.New("redlock: lock lost")

	// ErrExpired: the lock's validity has ended. It also matches ErrLost.
	ErrExpired error = expiredError{}

	// ErrNotAcquired: Lock, TryLock or Do has got no lock, for whatever reason: the
	// lock is taken, nodes do not answer, the context ended, an argument is wrong. It is
	// found beside what else the error matches. From Do it says that the function was
	// not called, and nothing else does: an error that the function has returned does
	// not match it, even if it is that of another Lock.
	ErrNotAcquired = errors.New("redlock: not acquired")

	// ErrAlreadyHeld: a lock in the context of a Lock, TryLock or Do (see [FromContext])
	// holds one of the resources, and would have been waited for for ever. The lock is
	// not reentrant: pass it on instead. It also matches ErrTaken.
	ErrAlreadyHeld error = alreadyHeldError{}

	// ErrClosed: Close was called on the Redlock.
	ErrClosed = errClosed

	// ErrMaxHold: KeepAlive or Do have kept the lock for as long as WithMaxHold
	// allows. Only as a cause of their contexts, and in the error of Do.
	ErrMaxHold = errors.New("redlock: max hold reached")
)

// What a node's vote can carry besides the node's own error and the errors
// above. They never appear in an error's chain, only in Vote.Err.
var (
	// ErrPending: the decision fell, or the call ended, before the node was heard.
	// Not a failure.
	ErrPending = errors.New("redlock: not waited for")

	// ErrNodeTimeout: the node did not answer within the node timeout, or before
	// an answer would have come too late to count.
	ErrNodeTimeout = errTimeout

	// ErrOverloaded: the node was not asked, because more was asked for than the nodes
	// can answer in time: the attempt was turned away after waiting for its turn, or this
	// node has left too many requests unanswered. Try again later; [Redlock.Lock] does.
	ErrOverloaded = errOverloaded

	// ErrQuarantined: the node may have forgotten locks that are still held, and does not
	// grant any until WithQuarantine's time is over, HolderTTL from now.
	ErrQuarantined = errors.New("redlock: node in quarantine")

	// ErrConfigMismatch: with WithQuarantine, the node is set up for clients with another
	// number of nodes, and grants this one no lock; see [Redlock.Admit].
	ErrConfigMismatch = errors.New("redlock: node set up for another number of nodes")
)

// errTooLate is the vote of a node that had not answered when nothing was left of the
// ttl. It matches ErrNodeTimeout, but a longer node timeout would not help.
var errTooLate error = tooLateError{}

type tooLateError struct{}

func (tooLateError) Error() string { return "redlock: no answer before the ttl was used up" }

func (tooLateError) Is(target error) bool { return target == ErrNodeTimeout }

// expiredError is the type of ErrExpired; it exists so that errors.Is finds
// ErrLost in it too.
type expiredError struct{}

func (expiredError) Error() string { return "redlock: lock expired" }

func (expiredError) Is(target error) bool { return target == ErrLost }

// alreadyHeldError is the type of ErrAlreadyHeld; errors.Is finds ErrTaken in it too.
type alreadyHeldError struct{}

func (alreadyHeldError) Error() string { return "redlock: already held by the lock of this context" }

func (alreadyHeldError) Is(target error) bool { return target == ErrTaken }

// A Vote is one node's part in a round.
type Vote struct {
	// Node is the node's name.
	Node string

	// Took is the time from the start of the round to this vote; 0 while the
	// node is pending.
	Took time.Duration

	// Err is nil for a yes. Otherwise ErrTaken (another token holds a
	// resource), ErrLost (the key is gone or another's), ErrPending,
	// ErrNodeTimeout, ErrOverloaded, ErrQuarantined, ErrConfigMismatch, ErrClosed, or the
	// node's own error, with the address of the failing part of the network in it as redigo
	// or the server gave it.
	Err error

	// Holder is a digest of the token that holds the resource on this node,
	// with ErrTaken: two nodes that show the same digest are held by the same
	// lock. It is a digest so that it may be logged; see [Lock.Token]. It may be
	// empty where a Lock waits: nobody has the resource, and it is left to another
	// waiter, which was told of its release, for the time in HolderTTL.
	Holder string

	// Owner is the label that the holder has given itself with [WithOwner], with
	// ErrTaken; empty if it has none, or is no client of this library.
	Owner string

	// HolderTTL is how long that token's key still had to live, with ErrTaken;
	// negative if the key has no expiry. With ErrQuarantined, the time left of that.
	HolderTTL time.Duration

	stance stance
}

// String returns the vote in the form that QuorumError.Error prints.
func (v Vote) String() string {
	switch {
	case v.Err == nil:
		return v.Node + ": yes"
	case v.Holder != "":
		return v.Node + ": " + heldBy(v.Holder, v.Owner, v.HolderTTL)
	case v.stance == no && v.Err == ErrTaken: //nolint:errorlint // Not what wraps it.
		return fmt.Sprintf("%s: left to another waiter for %v", v.Node, v.HolderTTL)
	case v.Err == ErrNodeTimeout && v.Took > 0: //nolint:errorlint // As above.
		return fmt.Sprintf("%s: node timeout after %s", v.Node, brief.Duration(v.Took))
	default:
		return v.Node + ": " + strings.TrimPrefix(v.Err.Error(), "redlock: ")
	}
}
