package node

import "time"

// This file decides whether a node takes a request.

// Enqueue hands a request to the node. An error is the node's vote. Then a lock request, an extension or a repair was
// not taken. Whether a release was taken depends on its token:
//
//   - One that may have left keys on this node: taken, unless the node is closed. If it cannot be sent, it is owed.
//   - One that was never sent to this node: not taken, and the token's lock request will not be sent, either.
//   - One of another process: taken while there is room.
func (n *Node) Enqueue(q *Request, now time.Time) error {
	release := q.Kind == Release
	if release {
		q.note(Asked)
	}
	switch {
	case n.state == Closed || n.closing && !release:
		return ErrClosed
	case n.state == Backoff:
		n.owe(q, now)
		return n.down
	case n.state == Connecting && n.failed && q.Kind == LockRequest && n.IsEnough():
		return n.Unreached() // It mostly hangs, and a pending vote keeps the others from settling a split vote.
	case n.state != Up && q.Kind == RepairRequest, n.state == Connecting && release && !q.mark().mayBeOn():
		return ErrUnreached
	case n.isSilent(now, q.Limit) && (!release || !q.mark().mayBeOn()):
		n.refusedWhileSilent = true
		if n.conn != nil && now.Sub(n.conn.lastReply) < n.Silence {
			return ErrBehind
		}
		return ErrSilent
	case n.hasTooManyUnanswered() && (q.Kind == LockRequest || release && !q.mark().mayBeOn()):
		return errTooManyUnanswered
	case (!release || q.Trace.size > 0) && n.Backlog() >= MaxBacklog:
		return ErrBacklog
	case n.state == Idle:
		n.want()
	}
	q.sent = n.since(now)
	n.push(q)
	return nil
}

// isSilent reports whether the oldest request has been unanswered for longer than a new caller would wait. A request
// behind it would only time out as well, and add to those of unknown outcome if the connection breaks. The new caller's
// own patience counts. With the oldest request's patience, one caller's short timeout would fail everybody.
func (n *Node) isSilent(now time.Time, patience time.Duration) bool {
	q := n.inFlight.head
	return q != nil && n.since(now)-q.sent > max(patience, n.Timeout) && !n.mayHaveUnread(now)
}

// hasTooManyUnanswered reports whether so many locks are unanswered that one more must not be asked for. Such a node is
// slower than a quorum of the others, which decide without it. It would collect seconds of work, and answer extensions
// and releases too late. Nobody waits for it.
func (n *Node) hasTooManyUnanswered() bool {
	return int64(n.queue.locks+n.inFlight.locks) >= n.MaxUnanswered()
}

// RefusedElsewhere notes that an attempt was turned away while the node is silent. Calls with a long node timeout then
// have all places. They must not keep a dead connection for the others, which never get to ask the node.
func (n *Node) RefusedElsewhere(now time.Time, patience time.Duration) {
	if n.isSilent(now, patience) {
		n.refusedWhileSilent = true
	}
}

// Release gives up the token on this node in the background. It sends nothing if nothing can be left.
func (n *Node) Release(t *Trace, index int, now time.Time) {
	t.note(uint16(index), Release, Asked, false)
	if t.at(index).mayBeOn() {
		cmd, receiver := t.owner.Release(now, false)
		_ = n.Enqueue(&Request{Task: &Task{Kind: Release, Command: cmd, Trace: t, Limit: n.Timeout, Receiver: receiver}, Index: uint16(index)}, now)
	}
}

// Aside asks the node something that no call waits for, and that must cost no call anything. It is sent only if the
// node is connected and answers. Its answer is no vote, no sign of life and no miss: the PING of an idle connection is
// due as always.
func (n *Node) Aside(i int, cmd Command, r Receiver, now time.Time) (sent bool) {
	sent = n.state == Up && !n.closing && !n.isSilent(now, n.Timeout) && n.Backlog() < MaxBacklog
	if sent {
		n.push(&Request{Task: &Task{Kind: Aside, Command: cmd, Receiver: r, Limit: n.Timeout}, Index: uint16(i), Eval: true})
	}
	return sent
}

// Withdraw takes back a request that has not been written, and reports whether it did. It leaves releases.
func (n *Node) Withdraw(q *Request) (taken bool) {
	if taken = q.Kind != Release && q.queue == &n.queue; taken {
		n.queue.remove(q)
	}
	return taken
}
