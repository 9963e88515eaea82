package node

import (
	"errors"
	"strings"

	"github.com/seed6c881748/redlock/internal/conn"
)

// This file is about the lock request that is no script: on one resource, SET key token NX GET PX ttl does
// what the lock script does, for a third of the server's time. PTTL goes right behind it, on the same
// connection, so that a refusal says when to come back; to ask only when refused would take a second round
// trip. Between the two the key may expire, or be another's by then: what PTTL says is a hint.
//
// A node is asked by the script instead
//   - on a connection whose server does not know NX with GET, as before Redis 7.0;
//   - once a key has held more than maxDirect: GET answers the whole value, the script a digest of it.

// maxDirect is the longest value for which a node goes on to be asked directly.
const maxDirect = 1 << 20

// mayBeDirect reports whether the request is to be sent without its script. n.mu is held.
func (p *pipeline) mayBeDirect(q *Request) bool {
	return q.Command.isDirect() && !q.Eval && p.dialect == nil && !p.scriptsOnly && !p.node.scriptsOnly
}

// A directReply is the reply to a SET whose PTTL is still to be answered.
type directReply struct {
	waits bool
	value any
	err   error
}

// direct takes one of the two replies to the oldest request, a direct one. The second completes it: then
// out is what they say, unless err is an error of the server. n.mu is held.
func (p *pipeline) direct(q *Request, reply any, err error) (out Outcome, failed error, complete bool) {
	first := &p.half
	if !first.waits {
		*first = directReply{true, reply, err}
		return out, nil, false
	}
	value, failed := first.value, first.err
	*first = directReply{}
	if failed != nil {
		return out, failed, true
	}
	if v, ok := value.([]byte); ok && len(v) > maxDirect {
		p.node.scriptsOnly = true
	}
	left, ok := reply.(int64)
	if err != nil || !ok {
		left = -1 // Not known: as if it had no expiry.
	}
	return q.Command.Script.Direct(q.Command.Args[0], value, left), nil, true
}

// isUnknownForm reports whether the server has refused a direct request because of its form. It has done nothing.
func isUnknownForm(q *Request, err error) bool {
	return q.direct && conn.ErrorCode(err) == "ERR" && strings.Contains(err.Error(), "syntax error")
}

// noteLongReply has the node be asked by scripts only from now on if the connection has ended because a
// key's value was too long to be read. n.mu is held.
func (n *Node) noteLongReply(why error) {
	if q := n.inFlight.head; q != nil && q.direct && errors.Is(why, conn.ErrLongReply) {
		n.scriptsOnly = true
	}
}
