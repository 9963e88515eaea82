package node

import "time"

// This file handles a node's answers.

// An Effect is what follows from a reply.
type Effect uint8

// The effects.
const (
	Told      Effect = iota // the request has its outcome
	Goes                    // it has none yet, or nobody waits for it
	Unasked                 // nobody has asked
	Drained                 // it was the last one before the end
	TakenOver               // it was the last one of the connection: the next one is to Follow
)

// Answer matches a reply to the oldest request in flight. The reply is a script's answer, or an error of the server.
func (n *Node) Answer(c *Conn, reply any, err error, now time.Time) (q *Request, out Outcome, effect Effect) {
	if q = n.inFlight.head; c.over || q == nil {
		return nil, out, Unasked
	}
	direct := q.direct
	if direct {
		var complete, long bool
		if out, complete, long, err = c.half.take(q, reply, err, n.Code); !complete {
			return q, out, Goes
		}
		n.scriptsOnly = n.scriptsOnly || long
	}
	n.inFlight.remove(q)
	if q.Kind != Aside {
		c.lastReply, c.said, n.refusedWhileSilent = now, err, false
		took := max(n.since(now)-q.sent, 0)
		n.rtt.add(took)
		n.takes = max(min(n.rtt.smoothed, took), 1)
	}
	c.served = c.served || err == nil
	switch {
	case direct && q.scripted:
		c.keepsKeys = c.keepsKeys || err != nil
		n.push(q)
		return q, out, Goes
	case q == &n.drainPing:
		return q, out, n.drained(c)
	case q.Command.Script == nil:
		return q, out, n.takeOver(c, q)
	case q.look != nil:
		n.looked(q.look, reply, err, now)
		return q, out, Goes
	case err != nil:
		effect, out.Err = n.refused(c, q, err, now)
	default:
		if !direct {
			out = q.Command.Script.Decode(reply)
		}
		out = n.heard(c, q, out, now)
	}
	if q.Command.Script == Probe {
		n.tried(q, out, now)
	}
	return q, out, effect
}

// heard takes the answer of a script.
func (n *Node) heard(c *Conn, q *Request, out Outcome, now time.Time) Outcome {
	if c.Dialect != nil && q.Command.Script.Grants {
		c.Dialect.Heard(out, now)
	}
	if q.Trace != nil {
		out = q.heard(out)
	}
	if q.Kind == Release {
		n.released(q, out.Stance != Silent, now)
	}
	if q.Trace != nil && n.vanished.hear(q, &out, now) {
		n.stats.Vanished++
		n.stats.VanishedAt = now
		n.record(Fact{What: Vanished, At: now, Times: n.stats.Vanished})
	}
	return out
}

// drained ends the connection at the answer to its last PING, unless something is left to do.
func (n *Node) drained(c *Conn) Effect {
	switch {
	case n.queue.len > 0 || n.inFlight.len > 0:
		n.sendDrainPing() // A release is still to be answered.
		return Goes
	case n.releases.open > 0:
		return Goes // Another last PING follows the repeated release.
	default:
		n.End(c, nil) // End it here, or a release might still be sent.
		return Drained
	}
}

// takeOver ends the connection if there is a next one and the answer to q was its last, and returns the effect.
func (n *Node) takeOver(c *Conn, q *Request) Effect {
	if q != c.last {
		return Told
	}
	c.replaced = true
	n.End(c, nil)
	return TakenOver
}

// sendDrainPing queues the last request of the connection if the node is being closed. It goes behind every release.
// The node must be up.
func (n *Node) sendDrainPing() {
	if n.closing && n.drainPing.queue == nil {
		n.push(&n.drainPing)
	}
}
