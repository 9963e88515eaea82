package node

import "cmp"

// This file is about the release without a script. Some servers have a command that deletes a key if it has a value,
// DELIFEQ or DELEX. On one resource it does what the unlock script does, for much less of the server's time, but it
// tells no waiter. So PTTL of the bell follows on the same connection. Mostly the key has held the token, and there is
// no bell. Otherwise the request goes once more, by the script, as a repeated release: the script tells the first in
// line if the resource is free, and says who holds it if not. Requests in between the two cost nobody a message: the
// bell is there while somebody is in line, and the release of a later holder looks at it as well.
//
// The script also goes if the server refuses one of the two commands, and from then on for all releases on that
// connection. Such a refusal is no vote.

// IsDeletion reports whether the command can be sent without its script where the server can delete by value.
func (c *Command) IsDeletion() bool {
	return c.Script != nil && c.Script.Deletes && len(c.Keys) == 2 // The key and its bell.
}

// deleted takes the two replies to a release: whether the key was deleted, and how long the bell lives. Unless that
// settles the release, the script must be sent. code returns the first word of a server's error.
func (q *Request) deleted(code func(error) string, first directReply, bell any, err error) (out Outcome, failed error) {
	failed = cmp.Or(first.err, err)
	switch {
	case failed == nil && first.value == int64(1) && bell == int64(-2):
		return Outcome{Stance: Yes}, nil
	case first.err == nil && first.value == int64(0), first.err != nil && isUndone(code(first.err), first.err):
	default:
		q.note(Unclear) // The key may have been deleted, so that the script does not find it.
	}
	q.scripted = true
	return out, failed
}
