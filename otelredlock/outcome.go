package otelredlock

import (
	"context"
	"errors"

	"github.com/seed6c881748/redlock/redlock"
)

// An outcome is how a call, or a hold, has ended: an index of outcomes.
type outcome int

const (
	success outcome = iota
	closed
	expired
	lost
	stopTime
	maxHold
	taken
	overloaded
	noQuorum
	canceled
	other
)

// outcomes are the values of error.type, the more special ones first, with the errors that are one by themselves. A
// failure is one that somebody should look at: that somebody else has a lock, or that a caller stops waiting while
// all is well, is ordinary.
var outcomes = [...]struct {
	text    string
	failure bool
	err     error
}{
	success:    {"", false, nil},
	closed:     {"closed", false, redlock.ErrClosed},
	expired:    {"expired", true, redlock.ErrExpired},
	lost:       {"lost", true, redlock.ErrLost},
	stopTime:   {"stop_time", true, redlock.ErrStopTime},
	maxHold:    {"max_hold", true, redlock.ErrMaxHold},
	taken:      {"taken", false, redlock.ErrTaken},
	overloaded: {"overloaded", true, nil},
	noQuorum:   {"no_quorum", true, nil},
	canceled:   {"canceled", false, nil},
	other:      {"_OTHER", true, nil},
}

// outcomeOf returns the outcome of a call that has returned err. Of a call that was ended by its context,
// what its last attempt saw counts: callers have deadlines, and would hide that nodes are down.
func outcomeOf(err error) outcome {
	for o := range outcomes {
		if errors.Is(err, outcomes[o].err) { // Of success, too: there it is nil.
			return outcome(o)
		}
	}
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case errors.Is(err, redlock.ErrNoQuorum) && (!ended || wasImpossible(err)):
		if wasTurnedAway(err) {
			return overloaded
		}
		return noQuorum
	case ended:
		return canceled
	default:
		return other
	}
}

// wasImpossible reports whether so many nodes had failed that no quorum was left, and not only that nodes
// had not answered yet.
func wasImpossible(err error) bool {
	qe, failed := (*redlock.QuorumError)(nil), 0
	if !errors.As(err, &qe) {
		return false
	}
	for _, v := range qe.Votes {
		if v.Err != nil && !errors.Is(v.Err, redlock.ErrPending) {
			failed++
		}
	}
	return failed > len(qe.Votes)-qe.Need
}

// wasTurnedAway reports whether no node was asked, because of an overload.
func wasTurnedAway(err error) bool {
	qe := (*redlock.QuorumError)(nil)
	if !errors.As(err, &qe) || len(qe.Votes) == 0 {
		return false
	}
	for _, v := range qe.Votes {
		if !errors.Is(v.Err, redlock.ErrOverloaded) {
			return false
		}
	}
	return true
}

// endOf returns the outcome of a hold that has ended because of err. A loss that Do or KeepAlive has
// found counts, whatever else err matches.
func endOf(err error) outcome {
	switch {
	case errors.Is(err, redlock.ErrExpired):
		return expired
	case errors.Is(err, redlock.ErrLost):
		return lost
	default:
		return outcomeOf(err)
	}
}

// causeOf is the value of redlock.hold.end.
func causeOf(o outcome) string {
	if o == success {
		return "released"
	}
	return outcomes[o].text
}

// votes are the values of redlock.vote for a vote with an error, the more special ones first.
var votes = []struct {
	err  error
	text string
}{
	{redlock.ErrPending, "pending"},
	{redlock.ErrTaken, "taken"},
	{redlock.ErrLost, "lost"},
	{redlock.ErrNodeTimeout, "timeout"},
	{redlock.ErrOverloaded, "overloaded"},
	{redlock.ErrQuarantined, "quarantined"},
	{redlock.ErrConfigMismatch, "quarantined"},
}

// voteOf is what a vote says, for redlock.vote.
func voteOf(v redlock.Vote) string {
	if v.Err == nil {
		return "yes"
	}
	for _, vote := range votes {
		if errors.Is(v.Err, vote.err) {
			return vote.text
		}
	}
	return "failed"
}

// The attributes. Those of OpenTelemetry's semantic conventions have their names there; the others have
// the library's as their namespace, as the conventions ask.
const (
	keyError     = "error.type"
	keyClass     = "redlock.resource.class"
	keySemaphore = "redlock.semaphore"
	keyOperation = "redlock.operation"
	keyNode      = "redlock.node.name"
	keyVote      = "redlock.vote"
	keyCause     = "redlock.hold.end"
	keyMeet      = "redlock.quorums.meet"

	keyResources = "redlock.resources"
	keyAttempt   = "redlock.attempt"
	keyAttempts  = "redlock.attempts"
	keyFence     = "redlock.fence"
	keySlot      = "redlock.slot"
	keyHolder    = "redlock.holder"
	keyOwner     = "redlock.owner"
	keyPosition  = "redlock.position"
	keyVotesYes  = "redlock.votes.yes"
	keyDuration  = "redlock.duration"
	keyHeld      = "redlock.hold.duration"
	keyMessage   = "exception.message"
)

// The events of spans.
const (
	eventAttempt   = "redlock.attempt"
	eventVote      = "redlock.vote"
	eventWaiting   = "redlock.waiting"
	eventAtRisk    = "redlock.hold.at_risk"
	eventHoldEnded = "redlock.hold.ended"
)
