package node

import "time"

// This file decides what is written to the connection, and when.

// maxBatch bounds how many requests are written before the flush.
const maxBatch = 256

// A Sending is a request as the writer sees it: a copy, because the request
// itself may be answered, and sent again, before the batch is written.
type Sending struct {
	Command Command
	Direct  bool // without its script
	Eval    bool // by the script's source
	Forgot  bool // the server has forgotten scripts since the handshake
}

// Queued returns how many requests wait to be written to the connection, and may be written now.
func (n *Node) Queued(c *Conn) int {
	if c.paused {
		return 0
	}
	return n.queue.len
}

// Next moves waiting requests into the flight, up to one batch. From here on, the outcome of each is unknown until its
// reply is read. The dropped ones must not be sent any more.
func (n *Node) Next(c *Conn, batch []Sending, now time.Time) (_ []Sending, dropped []*Request) {
	if c.paused {
		return batch, nil
	}
	since := n.since(now)
	if since-n.vanished.read >= readEvery {
		n.vanished.readClocks(now)
	}
	for limit := maxBatch; len(batch) < limit; {
		q := n.queue.pop()
		if q == nil {
			break
		}
		switch {
		case q.Trace != nil && q.Kind != Release && q.mark()&MarkReleased != 0,
			q.Kind == RepairRequest && since > after(q.sent, q.Within):
			// Its release was asked for, or the lock may have ended.
			dropped = append(dropped, q)
			continue
		}
		if q.Trace != nil {
			q.note(Written)
		} else if q == c.last {
			c.paused, limit = true, len(batch)+1
		}
		q.sent, q.direct = since, n.isDirect(c, q)
		n.inFlight.push(q)
		cmd := q.Command
		if cmd.Timed || q.scripted {
			cmd, _ = q.Trace.owner.Release(now, q.due != nil || q.scripted) // The request may have waited.
		}
		batch = append(batch, Sending{cmd, q.direct, q.Eval, n.forgot})
	}
	n.stir(c, now)
	return batch, dropped
}

// isDirect reports whether to send the request without its script.
func (n *Node) isDirect(c *Conn, q *Request) bool {
	switch {
	case q.Eval:
		return false
	case q.Command.IsDeletion():
		return c.Deletes != "" && !c.keepsKeys && !q.scripted
	default:
		return q.Command.IsDirect() && c.Dialect == nil && !c.scriptsOnly && !n.scriptsOnly
	}
}
