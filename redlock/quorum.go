package redlock

import (
	"errors"
	"slices"
)

// quorum is how many votes are needed: a strict majority of the nodes that were configured, not of those that answer.
func quorum(n int) int { return n/2 + 1 }

// smallNodes is the number of nodes up to which what is by node comes without an allocation of its own.
const smallNodes = 5

type tally struct {
	yes        int
	no         int // answered, and said no
	unanswered int // gave no answer: an error or a timeout
}

type verdict uint8

const (
	undecided verdict = iota
	granted
	taken
	noQuorum
	lost
	expired
)

func (v verdict) err() error {
	return [...]error{taken: ErrTaken, noQuorum: ErrNoQuorum, lost: ErrLost, expired: ErrExpired}[v]
}

// decide is the verdict on a round of n nodes, of which need must say yes.
//
//	need said yes                             granted
//	more than n-need gave no answer           noQuorum
//	more than n-need said no or gave none     no
//	otherwise                                 undecided
//
// A round keeps its first verdict other than undecided.
func decide(t tally, need, n int, no verdict) verdict {
	switch {
	case t.yes >= need:
		return granted
	case t.unanswered > n-need:
		return noQuorum
	case t.no+t.unanswered > n-need:
		return no
	default:
		return undecided
	}
}

// decideLock: a lock that could not reach its quorum was taken, unless the nodes without an answer could
// prevent it alone. As long as those that are still out could become so many, nothing is decided: an outage
// must not be told as somebody's lock.
func decideLock(t tally, need, n int) verdict {
	v := decide(t, need, n, taken)
	if v == taken && n-t.yes-t.no > n-need {
		return undecided
	}
	return v
}

// decideRaise is decideLock for a raise of counters, which does not wait for who is to blame: others may still be raised.
func decideRaise(t tally, need, n int) verdict {
	v := decide(t, need, n, taken)
	if v == taken && n-t.yes-t.no > n-need {
		return noQuorum
	}
	return v
}

// decideExtend: an extension proves the lock lost only if so many nodes said "not yours" that no
// quorum can be left; nodes without an answer may still hold it. As long as those that are still
// out could prove it, no other failure is told: a hold would go on until its lease has ended.
func decideExtend(t tally, need, n int) verdict {
	if t.no > n-need {
		return lost
	}
	v := decide(t, need, n, noQuorum)
	if pending := n - t.yes - t.no - t.unanswered; v == noQuorum && t.no+pending > n-need {
		return undecided
	}
	return v
}

// decideUnlock differs, because both answers are a success of the release: yes
// means "it was yours and is gone", no "it was not yours any more". It is
//
//	lost      if more than n-need nodes said no: no quorum held it at the end
//	granted   if need nodes answered, and the nodes still silent cannot change that
//	noQuorum  if need answers cannot be had any more
func decideUnlock(t tally, need, n int) verdict {
	pending := n - t.yes - t.no - t.unanswered
	switch {
	case t.no > n-need:
		return lost
	case t.yes >= need, t.yes+t.no >= need && t.no+pending <= n-need:
		return granted
	case t.unanswered > n-need:
		return noQuorum
	default:
		return undecided
	}
}

// decideRelease differs from decideUnlock, because whoever releases by token alone does not know whether the lock had
// ended. So only a quorum of nodes that had the keys shows that nobody else had the lock. It is
//
//	granted   if need nodes said yes
//	lost      if more than n-need nodes said no: no quorum can have had it
//	noQuorum  if the nodes that did not answer could make it either, and those still silent neither
func decideRelease(t tally, need, n int) verdict {
	pending := n - t.yes - t.no - t.unanswered
	switch {
	case t.yes >= need:
		return granted
	case t.no > n-need:
		return lost
	case t.yes+pending < need && t.no+pending <= n-need:
		return noQuorum
	default:
		return undecided
	}
}

// refusal is the error of an attempt that was not cut short; nil otherwise.
func refusal(err error) *QuorumError {
	no := (*QuorumError)(nil)
	if !wasCut(err) {
		errors.As(err, &no)
	}
	return no
}

// isOverload reports whether an attempt failed with err because of an overload: so many
// nodes were not asked that the others could not make a quorum.
func isOverload(err error) bool {
	no := refusal(err)
	if no == nil {
		return false
	}
	unasked := 0
	for _, v := range no.Votes {
		if errors.Is(v.Err, ErrOverloaded) {
			unasked++
		}
	}
	return unasked > len(no.Votes)-no.Need
}

// isForAnother reports whether a node said no only because the resource, which is free, is
// reserved for another client.
func isForAnother(v Vote) bool { return v.Err == errReserved } //nolint:errorlint // Not what wraps it.

// gaveWay reports whether an attempt by turn has found the resource reserved.
func gaveWay(err error) bool {
	no := refusal(err)
	return no != nil && slices.ContainsFunc(no.Votes, isForAnother)
}
