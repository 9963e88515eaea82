package redlock

import (
	"regexp"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// What the library needs is tried out: a server that forbids a command may forbid
// as well to ask what is forbidden, and an ACL is not the only thing in the way of a write.

// lockRights are the commands without which locks do not work; without waitRights
// those that wait for one poll.
var (
	lockRights = []string{"evalsha", "eval", "script|load", "get", "set", "del", "pttl", "pexpire"}
	waitRights = []string{"exists", "time", "zadd", "zrem", "zcard", "zpopmin", "publish", "subscribe"}
)

// A denial is a command that the server does not run for this client, as an ACL
// names it, and what it says.
type denial struct {
	right, says string
}

// checkKey is the key that the probe sets.
func checkKey(prefix string) string { return prefix + reservedMark + "check" }

// checkChannel is the channel that the probe sends to: nobody listens on it.
func checkChannel(prefix string) string { return prefix + reservedMark + channelMark + "check" }

// rights finds out what the connection's user may do. It ends with a subscription.
func (f *facts) rights(q *questions, prefix string) {
	key, channel := checkKey(prefix), checkChannel(prefix)
	answers := q.ask(
		[]any{"SCRIPT", "LOAD", probeScript.sourceArg},
		[]any{"EVALSHA", probeScript.shaArg, 1, key, channel},
		[]any{"EVAL", probeScript.sourceArg, 1, key, channel},
		[]any{"SUBSCRIBE", channel},
	)
	for i, right := range []string{"script|load", "evalsha", "eval", "subscribe"} {
		if answers == nil {
			return
		}
		switch err := answers[i].err; {
		case err == nil || strings.HasPrefix(err.Error(), "NOSCRIPT"): // Loading it was refused.
		default:
			f.denials = append(f.denials, denial{right, err.Error()})
		}
	}
	for _, a := range answers[1:3] {
		if failed, err := redis.Strings(a.reply, a.err); err == nil && !f.probed {
			f.probed = true
			for i := 0; i+1 < len(failed); i += 2 {
				f.denials = append(f.denials, denial{failed[i], failed[i+1]})
			}
		}
	}
}

// passingRE finds the errors of a server that refuses commands for what state it is
// in, not for who asks.
var passingRE = regexp.MustCompile(
	`\b(OOM|READONLY|MISCONF|NOREPLICAS|CLUSTERDOWN|MOVED|LOADING|BUSY|MASTERDOWN)\b`)

func (d denial) isPassing() bool { return passingRE.MatchString(d.says) }
