package main

// What the tool says to people: errors as sentences, hints, and names that cannot disturb a terminal.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/stored"
)

// sentence is an error as a shell shows it: who holds what, or which nodes failed, without the votes
// of all nodes. --verbose and --json have those. All commands report their errors through it.
func sentence(err error) string {
	var reasoned *reasonedError
	var votes *redlock.QuorumError
	switch {
	case errors.As(err, &reasoned):
		return harmless(reasoned.text) + ": " + sentence(reasoned.reason)
	case !errors.As(err, &votes):
		return messageOf(err)
	case errors.Is(err, context.DeadlineExceeded):
		return "gave up waiting: " + ofVotes(votes, 0)
	default:
		return ofVotes(votes, 0)
	}
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

// ofVotes says what the votes of a round amount to, some time after it. They do not say which of several resources is
// taken.
func ofVotes(e *redlock.QuorumError, after time.Duration) string {
	names := shown(e.Resources)
	switch {
	case errors.Is(e, redlock.ErrTaken) && len(e.Resources) > 1:
		return "one of " + names + " " + takenBy(e, after)
	case errors.Is(e, redlock.ErrTaken):
		return names + " " + takenBy(e, after)
	case errors.Is(e, redlock.ErrNoQuorum):
		return "no quorum for " + names + ": " + failures(e)
	case errors.Is(e, redlock.ErrExpired):
		return "the lock of " + names + " has expired"
	default:
		return "the lock of " + names + " is gone, or somebody else's"
	}
}

// takenBy says why resources are taken.
func takenBy(e *redlock.QuorumError, after time.Duration) string {
	holder, nodes, others := holderOf(e.Votes)
	switch {
	case nodes == 0:
		return "is about to go to somebody else who waits for it"
	case others > 0 && nodes < e.Need:
		return "is asked for by several at the same time"
	}
	text := "is held by " + printable(cmp.Or(holder.Owner, holder.Holder))
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
		on[v.Holder]++
	}
	delete(on, "")
	for _, v := range votes {
		switch n := on[v.Holder] - on[holder.Holder]; {
		case n > 0, v.Holder == holder.Holder && longer(v.HolderTTL, holder.HolderTTL) > 0:
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
	return fmt.Sprintf("%d of %d nodes failed: %s", len(failed), len(e.Votes), strings.Join(failed, ", "))
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
	if errors.As(err, &number) {
		return number.Error()
	}
	return messageOf(err)
}

// longWait is how long somebody waits until status says what to do about it.
const longWait = 5 * time.Minute

// hints say what to look at where a node has not said who holds a resource: the first one whose error it is.
var hints = []struct {
	is   *regexp.Regexp
	hint string
}{
	{
		regexp.MustCompile("NOAUTH|WRONGPASS|NOPERM"),
		"compare the user, the password and the rights with those on the server (docs/operations.md#rights)",
	},
	{regexp.MustCompile("WRONGTYPE"), "the key is another program's: use a --prefix of your own"},
	{
		regexp.MustCompile("no answer within|i/o timeout"),
		"it answers too late, or not at all, so locks cannot count on it: look at its processor, swapping, SLOWLOG, " +
			"and the way to it; a long way needs a longer --node-timeout, here and in the programs",
	},
	{regexp.MustCompile("connection refused"), "nothing listens there: does its server run, and at this address?"},
	{
		regexp.MustCompile(""),
		"does its server run, and is it reached from this machine? redlock check, here and on another one, tells",
	},
}

// nextStep is the hint for an error.
func nextStep(err error) string {
	for _, h := range hints {
		if h.is.MatchString(err.Error()) {
			return h.hint
		}
	}
	return ""
}

// nextSteps says what to do about what is wrong in views, each thing once, and how near the loss of the quorum is.
func nextSteps(views []view) (steps []string) {
	add := func(format string, args ...any) {
		if step := fmt.Sprintf(format, args...); !slices.Contains(steps, step) {
			steps = append(steps, step)
		}
	}
	for i := range views {
		v := &views[i]
		nodes, answer := len(v.sights), 0
		for _, n := range v.sights {
			if n.err == nil {
				answer++
			} else {
				add("%s: %s", n.node, nextStep(n.err))
			}
		}
		line := fmt.Sprintf("%d of %d nodes answer, %d needed", answer, nodes, v.need)
		switch {
		case answer < v.need:
			add("%s: no lock can be got or extended: bring back any of the nodes, with its data", line)
		case answer == v.need && answer < nodes:
			add("%s: restore a node before you restart another one", line)
		}
	}
	for i := range views {
		v := &views[i]
		waiters := v.waiters()
		if h, held := v.held(); held && len(waiters) > 0 && msOf(waiters[0].WaitedMS) >= longWait {
			add("%s: somebody has waited for %s: see what %s does, and end it there; redlock break takes the lock from it",
				printable(v.resource), shortly(msOf(waiters[0].WaitedMS)), who(h.token))
		}
	}
	return steps
}

// who names a holder: by its label, and by a digest of its token, which is not the token.
func who(token string) string {
	if owner := stored.Owner(token); owner != "" {
		return fmt.Sprintf("%q (%s)", owner, stored.Holder(token))
	}
	return stored.Holder(token)
}

// lasting says how long a key lives.
func lasting(ttl time.Duration) string {
	if ttl < 0 {
		return "without expiry"
	}
	return "for " + shortly(ttl)
}

// shortly is a duration for people.
func shortly(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}

// shown are names that stand in one line.
func shown(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, printable(name))
	}
	return strings.Join(all, ", ")
}

// printable is a name without what could disturb a terminal: anybody can name a key.
func printable(name string) string {
	quoted := fmt.Sprintf("%q", name)
	if inner := quoted[1 : len(quoted)-1]; inner != name {
		return quoted
	}
	return name
}

// messageOf is an error's text without the library's name, which stands before it already, and
// without what could disturb a terminal: it may be a node's.
func messageOf(err error) string { return harmless(strings.TrimPrefix(err.Error(), "redlock: ")) }

// harmless is a text whose characters that are not shown, but for the ends of lines, are named as in Go's strings.
func harmless(text string) string {
	quoted := strconv.Quote(text)
	return unquoted.Replace(quoted[1 : len(quoted)-1])
}

var unquoted = strings.NewReplacer(`\n`, "\n", `\"`, `"`, `\\`, `\`)
