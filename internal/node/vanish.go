package node

import "time"

// This file is about keys that vanish: a node has said that it has a token's keys, and says later that it does
// not, although they could not have expired yet and no release of the token has asked for it. It has been
// flushed, or restarted without its data, it evicts keys, its clock was set forward, or somebody else has
// deleted them.
//
// So each yes to a lock request, an extension or a repair notes until when the keys live at least: its validity,
// the ttl less the drift allowance, after the request was written. The node's next answer about the keys is held
// against that when it comes, so later than when it was given. A request without an answer notes nothing. That
// is why a lost packet, a broken connection or an extension that came to nothing makes no key vanish.
//
// The times are in the node's epoch, with the time that the machine has slept: keys go on to expire meanwhile.

// lifetimes are, by node, until when the keys of a token live there at least; 0: nothing is known. lifetimes[i]
// is guarded by the mutex of node i.
type lifetimes struct {
	by    []time.Duration
	small [5]time.Duration // room for the usual numbers of nodes
}

func (l *lifetimes) begin(nodes int) {
	l.by = l.small[:]
	if nodes > len(l.small) {
		l.by = make([]time.Duration, nodes)
	}
	l.by = l.by[:nodes]
}

// readEvery is how often the writer reads the clocks: to do so for each request would cost a percent of all. What is
// sent after a sleep that was not seen yet has its keys end too early, so that none vanishes that has expired.
const readEvery = time.Second

// readClocks reads the clocks, and returns by how much the monotonic one is behind. n.mu is held.
func (n *Node) readClocks(now time.Time) (lead time.Duration) {
	if n.Clock == nil {
		return 0
	}
	at, lead := n.Clock(now)
	if lead > n.slept {
		n.slept, n.woke = lead, at.Sub(n.epoch)
	}
	n.clocksRead = at.Sub(n.epoch)
	return lead
}

// noteKeys takes what the node has said about the keys of q's token, with its answer at the time now. n.mu is
// held.
func (n *Node) noteKeys(q *Request, out *Outcome, now time.Time) {
	if q.Kind != Release && q.Lives == 0 {
		return // A raise says nothing about how long they live; if it is refused, the reason may be the counter.
	}
	until := &q.Trace.lives.by[q.Index]
	switch {
	case q.Kind != Release && out.Stance == Yes:
		// What was written before a sleep that has ended meanwhile tells nothing: the keys may have lived through it.
		if q.sent >= n.woke {
			*until = max(*until, after(q.sent+n.slept, q.Lives))
		}
		return
	case q.Kind != Release && out.Stance == Silent:
		return
	case *until != 0 && (out.Stance == No || out.Stance == Gone) && now.Sub(n.epoch)+n.readClocks(now) < *until:
		n.vanished++
		n.vanishedAt = now
		n.Observer.Vanished(now, n.vanished)
	}
	*until = 0 // Once for each loss; and after a release they may be gone.
}
