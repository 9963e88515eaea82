package fitness

import (
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/internal/conn"
)

// What the library needs is tried out: a server that forbids a command may forbid
// as well to ask what is forbidden, and an ACL is not the only thing in the way of a write.

// Rights returns all commands that are tried, as an ACL names them.
func Rights() []string { return slices.Concat(lockRights, waitRights) }

// lockRights are the commands without which locks do not work; without waitRights
// those that wait for one poll.
var (
	lockRights = []string{"evalsha", "eval", "script|load", "get", "set", "del", "pttl", "pexpire"}
	waitRights = []string{"exists", "time", "zadd", "zrem", "zcard", "zpopmin", "publish", "subscribe"}
)

// rights finds out what the connection's user may do. It ends with a subscription.
func (f *facts) rights(q *questions, s *Setup, resourceKey string) {
	answers := q.ask(
		[]any{"SCRIPT", "LOAD", probeLua},
		[]any{"EVALSHA", probeSHA, 1, s.Key, s.Channel},
		[]any{"EVAL", probeLua, 1, s.Key, s.Channel},
		[]any{"EVALSHA", probeSHA, 1, resourceKey, s.Channel},
		[]any{"SUBSCRIBE", s.Channel},
	)
	if answers == nil {
		return
	}
	for i, right := range []string{"script|load", "evalsha", "eval", "", "subscribe"} {
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
