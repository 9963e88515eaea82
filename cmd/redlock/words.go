package main

// What the tool says to people: errors as sentences, hints, and names that cannot disturb a terminal.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/stored"
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

// longWait is how long somebody waits until status says what to do about it.
const longWait = 5 * time.Minute

// hints say what to look at where a node has not said who holds a resource: the first one whose error it is.
var hints = []struct {
	is   func(err error) bool
	hint string
}{
	{
		replied("NOAUTH", "WRONGPASS", "NOPERM"),
		"compare the user, the password and the rights with those on the server (docs/operations.md#rights)",
	},
	{replied("LOADING"), "its server reads its data: wait"},
	{replied("WRONGTYPE"), "the key is another program's: use a --prefix of your own"},
	{replied(""), "look at the log of its server; redlock check says whether it is fit for locks"},
	{
		isTooLate,
		"it answers too late, or not at all, so locks cannot count on it: look at its processor, swapping, SLOWLOG, " +
			"and the way to it; a long way needs a longer --node-timeout, here and in the programs",
	},
	{
		func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) },
		"nothing listens there: does its server run, and at this address?",
	},
	{
		func(err error) bool { var name *net.DNSError; return errors.As(err, &name) },
		"is the name of its host right, and is it known on this machine?",
	},
	{
		func(error) bool { return true },
		"does its server run, and is it reached from this machine? redlock check, here and on another one, tells",
	},
}

// replied is whether an error is a server's answer that begins with one of these words.
func replied(words ...string) func(err error) bool {
	return func(err error) bool {
		var reply redis.Error
		begins := func(word string) bool { return strings.HasPrefix(string(reply), word) }
		return errors.As(err, &reply) && slices.ContainsFunc(words, begins)
	}
}

func isTooLate(err error) bool {
	var op *net.OpError
	return strings.HasPrefix(err.Error(), "no answer within") || errors.As(err, &op) && op.Op == "read" && op.Timeout()
}

// nextStep is the hint for an error.
func nextStep(err error) string {
	for _, h := range hints {
		if h.is(err) {
			return h.hint
		}
	}
	return ""
}

// nextSteps says what to do about what is wrong in views, each thing once, and how near the loss of the quorum is.
func nextSteps(views []view) (steps []string) {
	add := func(step string) {
		if step != "" && !slices.Contains(steps, step) {
			steps = append(steps, step)
		}
	}
	for i := range views {
		away := 0
		for _, n := range views[i].sights {
			if n.err != nil {
				away++
				add(n.node + ": " + nextStep(n.err))
			}
		}
		add(quorumNear(len(views[i].sights), away, views[i].need))
	}
	for i := range views {
		v := &views[i]
		waiters := v.waiters()
		if h, held := v.held(); held && len(waiters) > 0 && msOf(waiters[0].WaitedMS) >= longWait {
			add(fmt.Sprintf("%s: somebody has waited for %s: see what %s does, and end it there; redlock break takes the lock from it",
				printable(v.resource), shortly(msOf(waiters[0].WaitedMS)), who(h.token)))
		}
	}
	return steps
}

// quorumNear says that the quorum is lost, or would be with one more node.
func quorumNear(nodes, away, need int) string {
	line := fmt.Sprintf("%d of %s answer, %d needed: ", nodes-away, count(nodes, "node"), need)
	switch {
	case away > 0 && nodes-away < need:
		return line + "no lock can be got or extended: bring back any of the nodes, with its data"
	case away > 0 && nodes-away == need:
		return line + "restore a node before you restart another one"
	default:
		return ""
	}
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

// count is a number of things: 1 node, 3 nodes.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}

// shown are names that stand in one line.
func shown(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, printable(name))
	}
	return strings.Join(all, " ")
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
