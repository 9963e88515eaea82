package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// The exit codes, besides the command's own of redlock run. From 64 on they are those of
// sysexits.h where it has one, and above them, where few programs have codes of their own; 126 and
// 127 are the shell's.
const (
	exitOK       = 0
	exitNo       = 1   // the answer is no: not held, nothing to delete, a warning of check
	exitUnfit    = 2   // redlock check: a node is unfit
	exitUsage    = 64  // EX_USAGE
	exitNoQuorum = 69  // EX_UNAVAILABLE
	exitInternal = 70  // EX_SOFTWARE
	exitTaken    = 75  // EX_TEMPFAIL: try again later
	exitLost     = 79  // the lock was lost while the command ran, or was not there any more
	exitCannot   = 126 // the command cannot be run
	exitNotFound = 127 // there is no such command
	exitSignal   = 128 // plus the number of the signal
)

// A codedError has an exit code of its own.
type codedError struct {
	error

	code   int
	reason string
}

func (e codedError) Unwrap() error { return e.error }

// usagef is the error of a mistake in the command line or the environment.
func usagef(format string, args ...any) error {
	return codedError{fmt.Errorf(format, args...), exitUsage, "usage"}
}

// An endedError ends the program without another word.
type endedError struct{ status status }

func (e *endedError) Error() string { return fmt.Sprintf("exit %d", e.status.code) }

// ended returns the error that ends the program with a code, nil for 0.
func ended(code int) error {
	if code == exitOK {
		return nil
	}
	return &endedError{status{code: code}}
}

// classify returns the exit code for an error, and a word for it that does not change between
// versions.
func classify(err error) (code int, reason string) {
	var coded codedError
	switch {
	case errors.As(err, &coded):
		return coded.code, coded.reason
	case errors.Is(err, redlock.ErrTaken):
		return exitTaken, "taken"
	case errors.Is(err, redlock.ErrNoQuorum):
		return exitNoQuorum, "no quorum"
	case errors.Is(err, redlock.ErrLost):
		return exitLost, "lost"
	case errors.Is(err, context.DeadlineExceeded):
		return exitNoQuorum, "no quorum" // Nothing was heard of the nodes in time.
	default:
		return exitInternal, "failed"
	}
}

// An errorJSON is what --json makes of an error.
type errorJSON struct {
	Error     string     `json:"error"`
	Reason    string     `json:"reason"`
	Exit      int        `json:"exit"`
	Resources []string   `json:"resources,omitempty"`
	Votes     []voteJSON `json:"votes,omitempty"`
}

type voteJSON struct {
	Node      string  `json:"node"`
	TookMS    float64 `json:"took_ms"`
	Error     string  `json:"error,omitempty"`
	Holder    string  `json:"holder,omitempty"`
	Owner     string  `json:"owner,omitempty"`
	HolderTTL *int64  `json:"holder_ttl_ms,omitempty"`
}

func writeErrorJSON(w io.Writer, err error, code int, reason string) {
	e := errorJSON{Error: messageOf(err), Reason: reason, Exit: code}
	var no *redlock.QuorumError
	if errors.As(err, &no) {
		e.Resources = no.Resources
		for _, v := range no.Votes {
			vote := voteJSON{Node: v.Node, TookMS: millisOf(v.Took), Holder: v.Holder, Owner: v.Owner}
			if v.Err != nil {
				vote.Error = messageOf(v.Err)
			}
			if v.Holder != "" {
				ms := v.HolderTTL.Milliseconds()
				vote.HolderTTL = &ms
			}
			e.Votes = append(e.Votes, vote)
		}
	}
	writeJSON(w, e)
}

// writeJSON writes one value on one line.
func writeJSON(w io.Writer, v any) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
}

// millisOf is a duration in milliseconds to the microsecond.
func millisOf(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// msOf is a number of milliseconds.
func msOf(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// ttlJSON is the life of a key in milliseconds, -1 if it does not expire.
func ttlJSON(ttl time.Duration) *int64 {
	ms := max(ttl.Milliseconds(), -1)
	return &ms
}
