package redlockcheck

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

// What the library needs is tried out: a server that forbids a command may forbid
// as well to ask what is forbidden, and an ACL is not the only thing in the way of a write.

// All commands that are tried, as an ACL names them. Without lockRights locks do not work;
// without waitRights those that wait for one poll.
var (
	lockRights = []string{"evalsha", "eval", "script|load", "get", "set", "del", "pttl", "pexpire"}
	waitRights = []string{"exists", "time", "zadd", "zrem", "zcard", "zpopmin", "publish", "subscribe"}
)

//go:embed probe.lua
var probeText string

//go:embed undeclared.lua
var undeclaredText string

// The scripts that are tried. Their files say what they are given and what they answer.
var (
	probe      = node.NewScript("probe", node.Code(probeText), nil)
	undeclared = node.NewScript("undeclared", node.Code(undeclaredText), nil)
)

// A denial is a command that the server does not run for this client, as an ACL
// names it, and what it says.
type denial struct {
	right, says string
}

// passingRE finds the errors of a server that refuses commands for what state it is
// in, not for who asks.
var passingRE = regexp.MustCompile(
	`\b(OOM|READONLY|MISCONF|NOREPLICAS|CLUSTERDOWN|MOVED|LOADING|BUSY|MASTERDOWN)\b`)

// keyRE finds the errors about a key that the user may not use, whatever the command.
var keyRE = regexp.MustCompile(`(?i)permissions? to access (a|one of the) keys?\b|can't access at least one of the keys`)

// unknownRE finds the errors about a command that the server does not know, also of a script's.
var unknownRE = regexp.MustCompile(`(?i)\bunknown (\w+ )?(sub)?command\b`)

func isUnknown(says string) bool { return unknownRE.MatchString(says) }

// isRight reports whether the server has refused a command for who asks.
func isRight(err error) bool { return err != nil && strings.Contains(err.Error(), "NOPERM") }

func (d denial) isPassing() bool { return passingRE.MatchString(d.says) }

func (d denial) isOfKeys() bool { return keyRE.MatchString(d.says) }

func (d denial) isAbout(other denial) bool { return d.right == other.right }

// rights finds out what the connection's user may do. It ends with a subscription.
func (f *facts) rights(q *questions, key, channel, resourceKey string) {
	answers := q.ask(
		[]any{"SCRIPT", "LOAD", probe.Source},
		[]any{"EVALSHA", probe.Hash, 1, key, channel},
		[]any{"EVAL", probe.Source, 1, key, channel},
		[]any{"EVALSHA", probe.Hash, 1, resourceKey, channel},
		[]any{"SUBSCRIBE", channel},
	)
	if answers == nil {
		return
	}
	for i, right := range []string{0: "script|load", 1: "evalsha", 2: "eval", 4: "subscribe"} {
		if right != "" {
			f.denials = append(f.denials, denied(right, answers[i])...)
		}
	}
	for _, a := range answers[1:3] {
		if a.Err == nil && !f.probed {
			var failed []denial
			failed, f.probed = probed(a)
			f.denials = append(f.denials, failed...)
		}
	}
	outside, _ := probed(answers[3])
	for _, d := range append(denied("evalsha", answers[3]), outside...) {
		known := slices.ContainsFunc(f.denials, func(other denial) bool { return other.right == d.right })
		if !known && f.outside == "" {
			f.outside = d.says
		}
	}
}

// denied is the denial of a command, if it was refused. An unknown script is none: to load
// it was refused.
func denied(right string, a conn.Answer) []denial {
	if a.Err == nil || strings.HasPrefix(a.Err.Error(), "NOSCRIPT") {
		return nil
	}
	return []denial{{right, a.Err.Error()}}
}

// probed reads the answer of the probe, and says whether that is what it is.
func probed(a conn.Answer) (failed []denial, ok bool) {
	list, err := a.Texts()
	for i := 0; i+1 < len(list); i += 2 {
		failed = append(failed, denial{list[i], list[i+1]})
	}
	return failed, err == nil
}

// undeclared finds out why a script may use no key that it was not given. Those of lines do, see
// internal/lines, and some servers that are like Redis refuse it, Dragonfly for one. What refuses the
// script itself is in the way of more than lines, and other checks say so.
func (f *facts) undeclared(q *questions, key string) {
	if answers := q.ask([]any{"EVAL", undeclared.Source, 1, key}); answers != nil && !conn.IsReply(answers[0].Err) {
		f.undeclaredKeys, _ = answers[0].Text()
	}
}
