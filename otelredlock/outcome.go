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
	expired
	lost
	taken
	overloaded
	noQuorum
	stopTime
	maxHold
	closed
	canceled
	other
)

// outcomes are the values of error.type, the more special ones first. A failure is one that somebody
// should look at: that somebody else has a lock, or that a caller stops waiting while all is well, is
// ordinary.
var outcomes = [...]struct {
	text    string
	failure bool
}{
	success:    {"", false},
	expired:    {"expired", true},
	lost:       {"lost", true},
	taken:      {"taken", false},
	overloaded: {"overloaded", true},
	noQuorum:   {"no_quorum", true},
	stopTime:   {"stop_time", true},
	maxHold:    {"max_hold", true},
	closed:     {"closed", false},
	canceled:   {"canceled", false},
	other:      {"_OTHER", true},
}

// outcomeOf returns the outcome of a call that has returned err. Of a call that was ended by its context,
// what its last attempt saw counts: callers have deadlines, and would hide that nodes are down.
func outcomeOf(err error) outcome {
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case err == nil:
		return success
	case errors.Is(err, redlock.ErrClosed):
		return closed
	case errors.Is(err, redlock.ErrExpired):
		return expired
	case errors.Is(err, redlock.ErrLost):
		return lost
	case errors.Is(err, redlock.ErrStopTime):
		return stopTime
	case errors.Is(err, redlock.ErrMaxHold):
		return maxHold
	case errors.Is(err, redlock.ErrTaken):
		return taken
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

// voteOf is what a vote says, for redlock.vote.
func voteOf(v redlock.Vote) string {
	switch {
	case v.Err == nil:
		return "yes"
	case errors.Is(v.Err, redlock.ErrPending):
		return "pending"
	case errors.Is(v.Err, redlock.ErrTaken):
		return "taken"
	case errors.Is(v.Err, redlock.ErrLost):
		return "lost"
	case errors.Is(v.Err, redlock.ErrNodeTimeout):
		return "timeout"
	case errors.Is(v.Err, redlock.ErrOverloaded):
		return "overloaded"
	case errors.Is(v.Err, redlock.ErrQuarantined), errors.Is(v.Err, redlock.ErrConfigMismatch):
		return "quarantined"
	default:
		return "failed"
	}
}
