package redlock

import (
	"errors"
	"slices"

	"github.com/seed6c881748/redlock/internal/lease"
)

// quorum returns how many votes are needed: a strict majority of the configured nodes, not of those that answer.
// Package lease (verdict.go) decides a round by its votes.
func quorum(n int) int { return lease.Need(n) }

// verdictError returns the error for a verdict, nil for a success.
func verdictError(v lease.Verdict) error { return verdictErrors[v] }

var verdictErrors = [...]error{
	lease.Taken: ErrTaken, lease.Behind: ErrTaken, lease.NoQuorum: ErrNoQuorum, lease.Lost: ErrLost, lease.Expired: ErrExpired,
	lease.StopTime: ErrStopTime, lease.MaxHold: ErrMaxHold, lease.Closed: ErrClosed, lease.ByRelease: nil,
}

// refusal returns the QuorumError of an attempt that was not cut short, nil for other errors.
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

// gaveWay reports whether an attempt that yields has found the resource reserved.
func gaveWay(err error) bool {
	no := refusal(err)
	return no != nil && slices.ContainsFunc(no.Votes, isForAnother)
}

// wasCut reports whether err is that of an attempt that was cut short.
func wasCut(err error) bool {
	cut := (*waitError)(nil)
	return errors.As(err, &cut)
}
