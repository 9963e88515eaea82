package redlock

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
)

// The errors of calls; test for them with errors.Is. An error about the nodes is a *[QuorumError]: it matches exactly
// one of ErrTaken, ErrNoQuorum, ErrLost and ErrExpired, and has every node's vote.
var (
	// ErrTaken means that another token holds at least one of the resources on so many nodes that the attempt could
	// not reach a quorum. Somebody else has the lock or asks for it, and may fail to get it.
	ErrTaken = errors.New("redlock: taken")

	// ErrNoQuorum means that no quorum was possible, whoever holds the resource, because too many nodes gave no vote:
	// they were down, too slow or in quarantine, or answered with an error. Or the quorum came too late to count.
	ErrNoQuorum = errors.New("redlock: no quorum")

	// ErrLost means that the lock is no longer held: its release has begun, or its keys are gone
	// or another's on so many nodes that no quorum can be left. It is never held again.
	ErrLost = errors.New("redlock: lock lost")

	// ErrExpired means that the lock's validity has ended. It also matches ErrLost.
	ErrExpired error = &caseError{"redlock: lock expired", ErrLost}

	// ErrNotAcquired means that Lock, TryLock or Do has got no lock, for whatever reason: the lock is taken, nodes do
	// not answer, the context ended, an argument is wrong. Every such error matches it, besides other errors. An
	// error of Do matches it if and only if the function was not called. An error that the function has returned does
	// not match it, even if it is the error of another Lock.
	ErrNotAcquired = errors.New("redlock: not acquired")

	// ErrAlreadyHeld means that a lock in the context of the call (see [FromContext]) holds
	// one of the resources: the call would wait for itself, forever. A lock is not
	// reentrant: pass it on instead. ErrAlreadyHeld also matches ErrTaken.
	ErrAlreadyHeld error = &caseError{"redlock: already held by the lock of this context", ErrTaken}

	// ErrClosed means that Close was called on the Redlock.
	ErrClosed = node.ErrClosed

	// ErrMaxHold means that KeepAlive or Do has held the lock for as long as WithMaxHold
	// allows. It is a cause of their contexts, and may be matched by the error of Do.
	ErrMaxHold = errors.New("redlock: max hold reached")

	// ErrStopTime means that KeepAlive or Do could not extend the lock in time: WithStopTime's
	// time before its end has come. The lock is still held. It is a cause of their contexts, and
	// may be matched by the error of Do. Nothing else matches it.
	ErrStopTime = errors.New("redlock: stop time reached")
)

// The errors of single nodes, in [Vote.Err], besides the errors above and those that a node
// has answered with. They are never in the chain of a call's error.
var (
	// ErrPending means that the round was decided, or the call ended, before the node answered.
	// It is not a failure of the node.
	ErrPending = errors.New("redlock: not waited for")

	// ErrNodeTimeout means that the node did not answer within the node timeout, or not
	// before its answer would have been too late to count.
	ErrNodeTimeout = node.ErrTimeout

	// ErrOverloaded means that the node was not asked, because callers ask for more than the
	// nodes can answer in time. The attempt was turned away after waiting for its turn, or this
	// node has left too many requests unanswered. Try again later; [Redlock.Lock] does.
	ErrOverloaded = node.ErrOverloaded

	// ErrQuarantined means that the node may have forgotten locks that are still held. It
	// grants none until WithQuarantine's time is over, which is HolderTTL from now.
	ErrQuarantined = quarantine.ErrQuarantined

	// ErrConfigMismatch means that, with WithQuarantine, the node is set up for clients with
	// other numbers of nodes, and grants this client no lock; see [Redlock.Admit].
	ErrConfigMismatch = quarantine.ErrConfigMismatch
)

// errTooLate is the vote of a node that had not answered when the ttl was used up. It matches ErrNodeTimeout, but a
// longer node timeout would not help.
var errTooLate error = &caseError{"redlock: no answer before the ttl was used up", ErrNodeTimeout}

// errReserved is the vote of a node on which the resource is free, and reserved for another waiter
// that was told of the release. It matches ErrTaken.
var errReserved error = &caseError{"redlock: left to another waiter", ErrTaken}

// errNotRaised is the vote of a node that has granted the lock and then refused to raise its counter
// to the fence: the key or the counter is another's by now. It matches ErrTaken.
var errNotRaised error = &caseError{"redlock: the lock or its fence was passed by another's", ErrTaken}

// A caseError is a case of a more general error, which errors.Is also finds in it.
type caseError struct {
	text    string
	general error
}

func (e *caseError) Error() string { return e.text }

func (e *caseError) Is(target error) bool { return target == e.general }

// A Vote is one node's answer in a round, or why there is none.
type Vote struct {
	// Node is the node's name.
	Node string

	// Took is the time from the start of the round to this vote, 0 if there is none yet (ErrPending).
	Took time.Duration

	// Err is nil for a yes. Otherwise it matches ErrTaken (another token holds a resource), ErrLost (the key is gone
	// or another's), ErrPending, ErrNodeTimeout, ErrOverloaded, ErrQuarantined, ErrConfigMismatch or ErrClosed; or it
	// is the node's own error, as redigo or the server gave it, network addresses included.
	Err error

	// Holder is, with ErrTaken, a digest of the token that holds the resource on this node, and so it is with the
	// ErrLost of Unlock and Release where the key is another's, and not just gone: nodes that show the same digest
	// are held by the same lock. If several resources are taken, it is that of the first in sorted order. Unlike the
	// token it may be logged; see [Lock.Token]. It is empty if nobody has the resource, but it is reserved, for the
	// time in HolderTTL, for another waiter that was told of the release. It is also empty if the node, with fencing,
	// had granted the lock and lost it to another one before the fence was agreed on.
	Holder string

	// Owner is, where Holder is, the label that the holder has given itself with [WithOwner];
	// empty if it has none, or is no client of this library.
	Owner string

	// HolderTTL is, where Holder is, how long the holder's key still had to live, negative if
	// the key has no expiry, and the longest where several resources are taken. With
	// ErrQuarantined it is how long the quarantine still lasts.
	HolderTTL time.Duration

	stance node.Stance
}

// String returns the vote in the form that QuorumError.Error prints.
func (v Vote) String() string {
	switch {
	case v.Err == nil:
		return v.Node + ": yes"
	case v.Holder != "":
		return v.Node + ": held by " + v.holder()
	case v.Err == errReserved: //nolint:errorlint // Not what wraps it.
		return fmt.Sprintf("%s: left to another waiter for %v", v.Node, v.HolderTTL)
	case v.Err == ErrNodeTimeout && v.Took > 0: //nolint:errorlint // As above.
		return fmt.Sprintf("%s: node timeout after %s", v.Node, brief.Duration(v.Took))
	default:
		return v.Node + ": " + plain(v.Err)
	}
}

// holder returns a short text on who holds a resource on the node, and for how long.
func (v Vote) holder() string {
	who := v.Holder
	if v.Owner != "" {
		who = fmt.Sprintf("%q (%s)", v.Owner, v.Holder)
	}
	if v.HolderTTL < 0 {
		return who + " without expiry"
	}
	return fmt.Sprintf("%s for %v", who, v.HolderTTL)
}

// An Op is an operation of a Redlock.
type Op string

// The operations that errors and events name.
const (
	OpLock    Op = "lock"    // TryLock, Lock, and the lock of Do
	OpExtend  Op = "extend"  // Extend, and the extensions of KeepAlive and Do
	OpUnlock  Op = "unlock"  // Unlock, that of Do included
	OpRelease Op = "release" // Release, of a lock that another process took
	OpDo      Op = "do"      // Do as a whole; only in events
	opInspect Op = "inspect" // Inspect; only in errors
)

// A QuorumError says why a round over the nodes failed. errors.Is finds exactly one of ErrTaken, ErrNoQuorum, ErrLost
// and ErrExpired in it, and ErrLost also in an ErrExpired. The nodes' own errors are in Votes and deliberately not in
// the chain: one slow node must not make errors.Is(err, context.DeadlineExceeded) true.
//
// It belongs to the caller. But the caller must not change one that Unlock has returned:
// repeated and simultaneous calls of Unlock return the same one.
type QuorumError struct {
	Op        Op       // the operation
	Resources []string // sorted
	Need      int      // the quorum: votes that were needed
	Attempt   int      // which attempt of a Lock call failed, from 1; 0 for other operations
	Votes     []Vote   // of all nodes, in the order given to New, as they were at the decision

	reason error
	prefix string // of the keys
	cut    bool   // the call ended before a decision
	gaveUp string // added to the text of a Lock that has used up its retries
}

// Error returns the operation, the resources with their keys, the reason and every node's vote, on one line.
func (e *QuorumError) Error() string {
	return fmt.Sprintf("redlock: %s %s: %s", e.Op, named(e.Resources, e.prefix), e.detail())
}

func (e *QuorumError) detail() string {
	s := plain(e.reason) + " (" + e.summary()
	for _, v := range e.Votes {
		s += "; " + v.String()
		if v.Err == ErrPending && !e.cut { //nolint:errorlint // A vote's, not what wraps it.
			s += ", as it could not change the result"
		}
	}
	return s + ")" + e.gaveUp
}

// summary returns a text on how many nodes said yes. It explains an error despite a quorum of yes.
func (e *QuorumError) summary() string {
	yes := 0
	for _, v := range e.Votes {
		if v.Err == nil {
			yes++
		}
	}
	ended := errors.Is(e.reason, ErrLost)
	switch counted := fmt.Sprintf("%d of %s", yes, brief.Count(len(e.Votes), "node")); {
	case ended && (e.Op == OpUnlock || e.Op == OpRelease):
		return counted + " said that they still had it"
	case yes >= e.Need && ended:
		return counted + " said yes, but the lock had ended by then"
	case yes >= e.Need && e.Need > 0:
		return counted + " said yes, but the ttl was used up by then"
	default:
		return fmt.Sprintf("%s said yes, %d needed", counted, e.Need)
	}
}

func (e *QuorumError) clone() *QuorumError {
	c := *e
	c.Resources, c.Votes = slices.Clone(e.Resources), slices.Clone(e.Votes)
	return &c
}

// Unwrap returns the one of ErrTaken, ErrNoQuorum, ErrLost and ErrExpired that the round failed with.
func (e *QuorumError) Unwrap() error { return e.reason }

// Is reports whether target is ErrNotAcquired and the error is that of a lock.
func (e *QuorumError) Is(target error) bool { return target == ErrNotAcquired && e.Op == OpLock }

// RetryAfter returns how long it takes until a quorum of nodes may grant the lock, by what the votes say of the
// holder's keys and of quarantines: when those of a dead holder end. It is 0 if the votes do not say, as when nodes
// gave no answer or several clients split the votes. The lock may be free much earlier, as it may be released, or
// later, as it may be extended; so a Retry-After header should not say more than the work takes.
func (e *QuorumError) RetryAfter() time.Duration {
	if e.Op != OpLock || e.Need < 1 || len(e.Votes) < e.Need {
		return 0
	}
	left, _ := freeIn(e.Votes, e.Need)
	return left
}

// named returns a short list of resources for an error's text, with their keys if these differ.
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

// plain returns the text of an error for use within another one.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "redlock: ") }

// A waitError is the error of a call that was ended, or not begun, because of something other than the votes: its
// context, Close, the lock's own end. It matches both that cause and the error of the last attempt.
type waitError struct {
	op        Op
	resources []string // nil: an argument was wrong
	cause     error
	last      error
}

func (e *waitError) Error() string {
	qe, ok := e.last.(*QuorumError) //nolint:errorlint // A wrapped one has more to say.
	switch {
	case e.resources == nil:
		return e.cause.Error()
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

// Is reports whether target is ErrNotAcquired and the error is that of a lock.
func (e *waitError) Is(target error) bool { return target == ErrNotAcquired && e.op == OpLock }

func (e *waitError) Unwrap() []error {
	if e.last == nil {
		return []error{e.cause}
	}
	return []error{e.cause, e.last}
}

// orClosed makes the error of a lock's round also match ErrClosed, if nodes were not asked because of Close.
func orClosed(err *QuorumError) error {
	if slices.ContainsFunc(err.Votes, func(v Vote) bool { return errors.Is(v.Err, ErrClosed) }) {
		return &waitError{op: err.Op, resources: err.Resources, cause: ErrClosed, last: err}
	}
	return err
}

// freeIn returns after which time need nodes may grant the lock, by what the votes say of the holder's keys; false if
// they cannot without a release.
func freeIn(votes []Vote, need int) (time.Duration, bool) {
	const never = time.Duration(math.MaxInt64)
	lefts := make([]time.Duration, 0, len(votes))
	for _, v := range votes {
		switch {
		case v.stance == node.Yes || v.stance == node.Pending:
			lefts = append(lefts, 0)
		case v.stance == node.No && v.HolderTTL >= 0, errors.Is(v.Err, ErrQuarantined):
			lefts = append(lefts, v.HolderTTL)
		default:
			lefts = append(lefts, never)
		}
	}
	slices.Sort(lefts)
	if left := lefts[need-1]; left != never {
		return left, true
	}
	return 0, false
}
