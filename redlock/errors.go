package redlock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
)

// The errors of calls; test for them with errors.Is. An error about the nodes is a
// *[QuorumError]: it matches exactly one of ErrTaken, ErrNoQuorum, ErrLost and ErrExpired,
// and has every node's vote.
var (
	// ErrTaken means that another token holds at least one of the resources on so many
	// nodes that the attempt could not reach a quorum. Somebody else has the lock, or
	// several clients tried at the same time and another one won.
	ErrTaken = errors.New("redlock: taken")

	// ErrNoQuorum means that so many nodes gave no vote (they were down, too slow or in
	// quarantine, or answered with an error) that no quorum was possible, whoever holds the
	// resource; or that the quorum came too late to be worth anything.
	ErrNoQuorum = errors.New("redlock: no quorum")

	// ErrLost means that the lock is not held any more, or that its keys are gone or
	// another's on so many nodes that no quorum can be left. A lost lock is never held
	// again.
	ErrLost = errors.New("redlock: lock lost")

	// ErrExpired means that the lock's validity has ended. It also matches ErrLost.
	ErrExpired error = expiredError{}

	// ErrNotAcquired means that Lock, TryLock or Do has got no lock, for whatever reason:
	// the lock is taken, nodes do not answer, the context ended, an argument is wrong. Every
	// such error matches it besides what else it matches. An error of Do matches it if and
	// only if the function was not called: an error that the function has returned does
	// not, even if it is that of another Lock.
	ErrNotAcquired = errors.New("redlock: not acquired")

	// ErrAlreadyHeld means that a lock in the context of the call (see [FromContext]) holds
	// one of the resources: the call would wait for itself, for ever. A lock is not
	// reentrant: pass it on instead. ErrAlreadyHeld also matches ErrTaken.
	ErrAlreadyHeld error = alreadyHeldError{}

	// ErrClosed means that Close was called on the Redlock.
	ErrClosed = node.ErrClosed

	// ErrMaxHold means that KeepAlive or Do has held the lock for as long as WithMaxHold
	// allows. It is a cause of their contexts, and may be matched by the error of Do.
	ErrMaxHold = errors.New("redlock: max hold reached")
)

// The errors of single nodes, in [Vote.Err], besides the errors above and those that a node
// has answered with. They are never in the chain of a call's error.
var (
	// ErrPending means that the round was decided, or the call ended, before the node
	// answered. It is no failure of the node.
	ErrPending = errors.New("redlock: not waited for")

	// ErrNodeTimeout means that the node did not answer within the node timeout, or not
	// before its answer would have been too late to count.
	ErrNodeTimeout = node.ErrTimeout

	// ErrOverloaded means that the node was not asked, because more was asked for than the
	// nodes can answer in time: the attempt was turned away after waiting for its turn, or
	// this node has left too many requests unanswered. Try again later; [Redlock.Lock] does.
	ErrOverloaded = node.ErrOverloaded

	// ErrQuarantined means that the node may have forgotten locks that are still held. It
	// grants none until WithQuarantine's time is over, which is HolderTTL from now.
	ErrQuarantined = quarantine.ErrQuarantined

	// ErrConfigMismatch means that, with WithQuarantine, the node is set up for clients with
	// another number of nodes, and grants this client no lock; see [Redlock.Admit].
	ErrConfigMismatch = quarantine.ErrConfigMismatch
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

// A Vote is one node's answer in a round, or why there is none.
type Vote struct {
	// Node is the node's name.
	Node string

	// Took is the time from the start of the round to this vote, 0 if there is none yet
	// (ErrPending).
	Took time.Duration

	// Err is nil for a yes. Otherwise it matches ErrTaken (another token holds a resource),
	// ErrLost (the key is gone or another's), ErrPending, ErrNodeTimeout, ErrOverloaded,
	// ErrQuarantined, ErrConfigMismatch or ErrClosed; or it is the node's own error, as
	// redigo or the server gave it, network addresses included.
	Err error

	// Holder is, with ErrTaken, a digest of the token that holds the resource on this node:
	// nodes that show the same digest are held by the same lock. Unlike the token it may be
	// logged; see [Lock.Token]. It is empty if nobody has the resource and it is reserved,
	// for the time in HolderTTL, for another waiter that was told of the release.
	Holder string

	// Owner is, with ErrTaken, the label that the holder has given itself with [WithOwner];
	// empty if it has none, or is no client of this library.
	Owner string

	// HolderTTL is, with ErrTaken, how long the holder's key still had to live, negative if
	// the key has no expiry; with ErrQuarantined, how long the quarantine still lasts.
	HolderTTL time.Duration

	stance node.Stance
}

// String returns the vote in the form that QuorumError.Error prints.
func (v Vote) String() string {
	switch {
	case v.Err == nil:
		return v.Node + ": yes"
	case v.Holder != "":
		return v.Node + ": " + heldBy(v.Holder, v.Owner, v.HolderTTL)
	case v.stance == node.No && v.Err == ErrTaken: //nolint:errorlint // Not what wraps it.
		return fmt.Sprintf("%s: left to another waiter for %v", v.Node, v.HolderTTL)
	case v.Err == ErrNodeTimeout && v.Took > 0: //nolint:errorlint // As above.
		return fmt.Sprintf("%s: node timeout after %s", v.Node, brief.Duration(v.Took))
	default:
		return v.Node + ": " + strings.TrimPrefix(v.Err.Error(), "redlock: ")
	}
}
