package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// sentence is an error as a shell shows it: who holds what, or which nodes failed, without the votes
// of all nodes. --verbose and --json have those. All commands report their errors through it.
func sentence(err error) string {
	var reasoned *reasonedError
	var permit *permitError
	var votes *redlock.QuorumError
	switch {
	case errors.As(err, &reasoned):
		return harmless(reasoned.text) + ": " + sentence(reasoned.reason)
	case errors.As(err, &permit) && errors.Is(err, redlock.ErrTaken) && errors.As(err, &votes):
		return permit.text(votes)
	case errors.As(err, &votes):
		text := ofVotes(votes, 0)
		if errors.Is(err, context.DeadlineExceeded) {
			text = "gave up waiting: " + text
		}
		return text
	case errors.Is(err, redlock.ErrNotAcquired) && errors.Is(err, context.DeadlineExceeded):
		return "gave up waiting: no node has answered yet"
	default:
		return messageOf(err)
	}
}

// details are what the sentence of an error leaves out, on lines of their own: every node's vote, or
// else the library's own text. They are empty if there is no more to say.
func details(err error) string {
	var votes *redlock.QuorumError
	if errors.As(err, &votes) {
		var b strings.Builder
		for _, v := range votes.Votes {
			b.WriteString("  " + harmless(v.String()) + "\n")
		}
		return b.String()
	}
	if text := messageOf(err); text != sentence(err) {
		return "  " + text + "\n"
	}
	return ""
}

// A reasonedError says what has failed, before the reason for it.
type reasonedError struct {
	text   string
	reason error
}

// because returns an error that says what has failed, and the reason.
func because(reason error, format string, args ...any) error {
	return &reasonedError{fmt.Sprintf(format, args...), reason}
}

func (e *reasonedError) Error() string { return e.text + ": " + e.reason.Error() }

func (e *reasonedError) Unwrap() error { return e.reason }

// ofVotes says what the votes of a round amount to, some time after it.
func ofVotes(e *redlock.QuorumError, after time.Duration) string {
	switch names := namesOf(e.Resources); {
	case errors.Is(e, redlock.ErrTaken):
		return subjectOf(e.Resources) + " " + takenBy(e, after)
	case errors.Is(e, redlock.ErrNoQuorum):
		return "no quorum for " + names + ": " + failures(e)
	case errors.Is(e, redlock.ErrExpired):
		return "the lock of " + names + " has expired"
	default:
		return "the lock of " + names + " is gone, or somebody else's"
	}
}

// takenBy says why resources are taken. The votes do not say which of several is.
func takenBy(e *redlock.QuorumError, after time.Duration) string {
	holder, nodes, others := holderOf(e.Votes)
	switch {
	case nodes == 0:
		return "is about to go to somebody else who waits for it"
	case others > 0 && nodes < e.Need:
		return "is asked for by several at the same time"
	}
	text := "is held by " + printable(holder.Owner)
	if holder.Owner == "" {
		text = "is held by " + holder.Holder
	}
	switch left := holder.HolderTTL - after; {
	case holder.HolderTTL < 0:
		return text + ", without expiry"
	case left > 0:
		return text + " for another " + shortly(left)
	default:
		return text
	}
}

// holderOf returns the vote of whoever is on the most nodes, with the longest life of its keys, on how many
// nodes it is, and how many others are on some.
func holderOf(votes []redlock.Vote) (holder redlock.Vote, nodes, others int) {
	on := make(map[string]int)
	for _, v := range votes {
		if v.Holder == "" {
			continue
		}
		on[v.Holder]++
		if on[v.Holder] > on[holder.Holder] {
			holder = v
		}
	}
	for _, v := range votes {
		if v.Holder == holder.Holder && longer(v.HolderTTL, holder.HolderTTL) > 0 {
			holder = v
		}
	}
	return holder, on[holder.Holder], len(on) - 1
}

// failures says which nodes gave no vote, and why.
func failures(e *redlock.QuorumError) string {
	var failed []string
	for _, v := range e.Votes {
		known := v.Err == nil || errors.Is(v.Err, redlock.ErrTaken) || errors.Is(v.Err, redlock.ErrLost) || errors.Is(v.Err, redlock.ErrPending)
		if !known {
			failed = append(failed, v.Node+" ("+failure(v)+")")
		}
	}
	if len(failed) == 0 {
		return "the answers came too late for the ttl"
	}
	return fmt.Sprintf("%d of %s failed: %s", len(failed), count(len(e.Votes), "node"), strings.Join(failed, ", "))
}

// failure is why a node gave no vote, without the address, which its name says.
func failure(v redlock.Vote) string {
	switch {
	case errors.Is(v.Err, redlock.ErrQuarantined):
		return "in quarantine for another " + shortly(v.HolderTTL)
	case errors.Is(v.Err, redlock.ErrNodeTimeout) && v.Took > 0:
		return "no answer within " + shortly(v.Took)
	case errors.Is(v.Err, net.ErrClosed): // The library has closed it: it was silent for too long.
		return "no answer in time"
	default:
		return causeOf(v.Err)
	}
}

// causeOf is why there is no answer, for where the node's name stands: without the address, and without the
// system calls on the way there.
func causeOf(err error) string {
	var number syscall.Errno
	var name *net.DNSError
	switch {
	case errors.As(err, &number):
		return number.Error()
	case errors.As(err, &name) && name.IsNotFound:
		return "no such host"
	default:
		return messageOf(err)
	}
}

// subjectOf names resources of which one is taken.
func subjectOf(resources []string) string {
	if len(resources) == 1 {
		return namesOf(resources)
	}
	return "one of " + namesOf(resources)
}

// namesOf names resources, and not more of them than one reads.
func namesOf(resources []string) string {
	const most = 5
	var names []string
	for _, r := range resources[:min(len(resources), most)] {
		names = append(names, printable(r))
	}
	text := strings.Join(names, ", ")
	if more := len(resources) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
