package node

import (
	"strings"
	"time"
)

// This file decides which error replies call for another step.

// refused handles an error reply, and returns whether the request goes once more.
func (n *Node) refused(c *Conn, q *Request, err error, now time.Time) (Effect, error) {
	code := n.Code(err)
	if code == "NOSCRIPT" && !q.Eval {
		// SCRIPT FLUSH, or another server behind the same address. A lock may be sent again only ahead of its release:
		// behind it, it would leave an orphan. It is sent again even if its round is decided: on a node that always
		// answers last, nothing else would bring the script back.
		if q.Kind == LockRequest && q.mark()&MarkReleased != 0 {
			q.note(Refused)
			return Told, err
		}
		q.Eval, n.forgot = true, true
		n.push(q)
		return Goes, nil
	}
	happened := Unclear // Behind a proxy that gave up, it may have run, or may run yet.
	if refusals[code] {
		happened = Refused
	}
	if q.direct && code == "ERR" && strings.Contains(err.Error(), "syntax error") { // It does not know the form.
		c.scriptsOnly = true
		if q.mark()&MarkReleased == 0 {
			n.push(q)
			return Goes, nil
		}
		happened = Refused
	}
	if q.Trace != nil {
		q.note(happened)
	}
	if q.Kind == Release {
		n.released(q, false, now)
	}
	return Told, err
}
