package redlockcheck

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

// The commands that the library needs are tried out: a server that forbids a command may also forbid to ask what is
// forbidden, and an ACL is not the only thing that can prevent a write.

// All commands that are tried, by their names in an ACL. Without lockRights locks do not work; without waitRights
// waiters poll.
var (
	lockRights = []string{"evalsha", "eval", "script|load", "get", "set", "del", "pttl", "pexpire"}
	waitRights = []string{"exists", "time", "zadd", "zrem", "zcard", "zpopmin", "publish", "subscribe"}
)

//go:embed probe.lua
var probeText string

//go:embed undeclared.lua
var undeclaredText string

// The scripts that are tried. Their files say what their arguments and answers are.
var (
	probe      = node.NewScript("probe", node.Code(probeText), nil)
	undeclared = node.NewScript("undeclared", node.Code(undeclaredText), nil)
)

// A denial is a command that the server does not run for this client, by its name in an ACL, and the server's answer.
type denial struct {
	right, says string
}

// passingRE matches the errors of a server that refuses commands because of its state, not because of who asks.
var passingRE = regexp.MustCompile(
	`\b(OOM|READONLY|MISCONF|NOREPLICAS|CLUSTERDOWN|MOVED|LOADING|BUSY|MASTERDOWN)\b`)

// keyRE matches the errors about a key that the user may not use, whatever the command.
var keyRE = regexp.MustCompile(`(?i)permissions? to access (a|one of the) keys?\b|can't access at least one of the keys`)

// unknownRE matches the errors about a command that the server does not know, in a script as well.
var unknownRE = regexp.MustCompile(`(?i)\bunknown (\w+ )?(sub)?command\b`)

func isUnknown(says string) bool { return unknownRE.MatchString(says) }

// isRight reports whether the server has refused a command because of who asks.
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

// denied returns the denial of a command, if it was refused. An unknown script is no denial: loading it was refused.
func denied(right string, a conn.Answer) []denial {
	if a.Err == nil || strings.HasPrefix(a.Err.Error(), "NOSCRIPT") {
		return nil
	}
	return []denial{{right, a.Err.Error()}}
}

// probed reads the answer of the probe, and reports whether it is one.
func probed(a conn.Answer) (failed []denial, ok bool) {
	list, err := a.Texts()
	for i := 0; i+1 < len(list); i += 2 {
		failed = append(failed, denial{list[i], list[i+1]})
	}
	return failed, err == nil
}

// undeclared finds out why a script may use no key that it was not given. Scripts of lines do so, see internal/lines,
// and some servers that resemble Redis, such as Dragonfly, refuse it. An error that refuses the script itself affects
// more than lines, and other checks report it.
func (f *facts) undeclared(q *questions, key string) {
	if answers := q.ask([]any{"EVAL", undeclared.Source, 1, key}); answers != nil && !conn.IsReply(answers[0].Err) {
		f.undeclaredKeys, _ = answers[0].Text()
	}
}
