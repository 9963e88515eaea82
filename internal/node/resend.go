package node

import "time"

// This file is about when a node's releases are sent again. Owed ones go all at once. Of the others only some are under
// way at a time, and further ones wait for their answers: outcomes are unknown just when nodes are slow.

// owe keeps a release that could not be sent, or was not answered, for the next connection.
func (n *Node) owe(q *Request, now time.Time) {
	if q.Kind != Release || !q.mark().mayBeOn() || q.mark()&markDue != 0 {
		return // This token's own release comes later, if there is anything to release.
	}
	if e := n.releases.add(q.Trace, q.Index, n.since(now)); e != nil {
		n.releases.pushNow(e)
	}
}

// released takes the answer to a release: whether it was carried out.
func (n *Node) released(q *Request, done bool, now time.Time) {
	r, m := &n.releases, q.mark()
	if e := q.due; e != nil {
		wasOwed := e.step == 0
		if wasOwed && done {
			n.stats.Cleaned++
			n.settled++
		}
		n.schedule(e, done, now)
		if wasOwed && r.owed == 0 {
			n.settle()
		}
		r.out--
		n.sendReleases(now)
		return
	}
	late, left := done && m&markUnknown != 0 && !n.closing, !done && m.mayBeOn()
	if (late || left) && m&markDue == 0 {
		if e := r.add(q.Trace, q.Index, n.since(now)); e != nil {
			n.schedule(e, done, now)
		}
	}
}

// schedule plans the next release of e after an answer: the keys are gone now, or the node has refused. It forgets e if
// nothing can come late any more.
func (n *Node) schedule(e *dueRelease, done bool, now time.Time) {
	r, step := &n.releases, e.step+1
	switch unknown := e.mark()&markUnknown != 0; {
	case done && (!unknown || n.closing || !e.open && e.at >= e.last):
		r.forget(e)
		return
	case done && e.open:
		r.open--
	case !done && !e.open:
		r.open++
	}
	if e.open == done {
		e.open, e.last, step = !done, after(n.since(now), e.trace.lateness(!done)), 1
	}
	n.delay(e, step, now)
}

// delay puts e off by the gap of a step.
func (n *Node) delay(e *dueRelease, step uint8, now time.Time) {
	r := &n.releases
	if n.closing && !e.open {
		r.forget(e)
		return
	}
	if e.step == 0 {
		r.owed--
	}
	e.step = min(step, maxStep)
	if e.open {
		e.step = min(step, maxOpenStep)
	}
	gap := firstGap << (e.step - 1)
	if n.closing {
		gap = n.Timeout / 8 // Close waits for those that were refused, but not longer than the node timeout.
	}
	e.at = after(n.since(now), gap)
	r.push(e)
	n.armReleases()
}

// armReleases makes Due return when the next release is due.
func (n *Node) armReleases() {
	r := &n.releases
	if e := r.first(); e != nil && n.state == Up && r.out == 0 { // If not, sendReleases is called when that changes.
		r.due, r.arms = e.at, true
	}
}

// Due returns once when to call Tick next. A new time replaces the last one.
func (n *Node) Due() (at time.Time, set bool) {
	set = n.releases.arms
	n.releases.arms = false
	return n.Epoch.Add(n.releases.due), set
}

// Tick is called when releases are due.
func (n *Node) Tick(now time.Time) { n.sendReleases(now) }

// sendReleases sends due releases: all that are owed, and of the others about maxLook keys, or all if the node is being
// closed.
func (n *Node) sendReleases(now time.Time) {
	r := &n.releases
	if n.state != Up || r.out > 0 {
		return
	}
	var look lookTask
	since, sent := n.since(now), 0
	for e := r.first(); e != nil && e.at <= since && (e.step == 0 || sent < maxLook || n.closing); e = r.first() {
		r.pop(e.step)
		e.at = since
		switch {
		case e.isOver(since):
			r.forget(e)
		case e.open:
			sent++
			n.pushRelease(e, now)
		default:
			sent += len(e.trace.owner.Keys())
			look.add(e)
		}
		if len(look.keys) >= maxLook {
			n.pushLook(look)
			look = lookTask{}
		}
	}
	if len(look.keys) > 0 {
		n.pushLook(look)
	}
	n.sendDrainPing()
	n.armReleases()
}

// sendOpen repeats refused releases at once.
func (n *Node) sendOpen(now time.Time) {
	n.releases.takeIf(func(e *dueRelease) bool {
		if e.open {
			e.at = n.since(now)
			n.pushRelease(e, now)
		}
		return e.open
	})
}

// pushRelease queues the release of e.
func (n *Node) pushRelease(e *dueRelease, now time.Time) {
	n.releases.out++
	cmd, receiver := e.trace.owner.Release(now, true)
	n.push(&Request{Task: &Task{Kind: Release, Command: cmd, Trace: e.trace, Receiver: receiver, Limit: n.Timeout}, Index: e.index, due: e})
}

// pushLook queues a look. It goes by EVAL: it is rare, and a server that does not know it has not forgotten the other
// scripts.
func (n *Node) pushLook(l lookTask) {
	n.releases.out++
	n.push(&Request{Task: &Task{Command: Command{Script: Look, Keys: l.keys, Args: l.tokens}, Limit: n.Timeout, look: &l}, Eval: true})
}

// looked takes the answer to a look: it releases what has come late, and tells waiters. If the server refuses the look,
// since the user may not read one of the keys or may not use EVAL, each token is released instead: a further look would
// be refused as well.
func (n *Node) looked(look *lookTask, reply any, err error, now time.Time) {
	held, said := reply.([]any)
	found := look.found(held)
	for i, e := range look.releases {
		if found[i] || err != nil {
			n.pushRelease(e, now)
		} else {
			n.schedule(e, said, now)
		}
	}
	n.releases.out--
	n.sendReleases(now)
}

// takeBack takes a request from a connection that has ended, and reports whether it was a repeated release. That
// attempt does not count, and is due at once on the next connection.
func (n *Node) takeBack(q *Request) bool {
	switch {
	case q.look != nil:
		for _, e := range q.look.releases {
			n.releases.pushNow(e)
		}
	case q.due != nil:
		n.releases.pushNow(q.due)
	default:
		return false
	}
	n.releases.out--
	return true
}

// settle records what was settled, once nothing is owed any more or the connection has ended.
func (n *Node) settle() {
	if n.unknown > 0 || n.settled > 0 {
		n.record(Fact{What: Settled, Unknown: n.unknown, Released: n.settled})
	}
	n.unknown, n.settled = 0, 0
}
