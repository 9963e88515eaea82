package node

import "time"

// This file is about releases that were not answered, or could not be sent: a node is owed them. They go
// first on its next connection.
//
// Nothing else is taken away there. In particular no key of a token whose release nobody has asked for: it
// may be held, and an extension or a repair may have made this node a counted vote since. A message that
// takes such a key away, delivered late or twice, lets in a second holder. So the only messages that delete
// keys are releases, of tokens that are dead and never used again. That makes exclusion safe from late and
// duplicated messages of any kind and age. TestUnknownModel… proves it, and finds what goes wrong otherwise.

// addOwed keeps a release that could not be sent, or was not answered, for the next
// connection. n.mu is held.
func (n *Node) addOwed(q *Request) {
	if q.Kind != Release {
		return // A token that may have left something has its own release, when it comes.
	}
	m := &q.Token.marks[q.Index]
	if !q.Token.mayBeOn(q.Index) || *m&markOwed != 0 {
		return
	}
	if *m&markForeign != 0 && !n.hasRoom(q.Token.size) {
		return
	}
	*m |= markOwed
	ends := q.gone
	if ends == 0 {
		ends = n.after(q.Token.lateness(true))
	}
	n.owed.push(&Request{
		Task: &Task{
			Kind: Release, Command: q.Token.owner.ReleaseCommand(time.Now()), Token: q.Token, Limit: n.Timeout, gone: ends,
			Voter: q.Token.owner.ReleaseVoter(),
		},
		Index: q.Index, wasOwed: true,
	})
}

// MaxForeign bounds the bytes that are kept for other processes' tokens whose release is not
// known to a node: the keys of one may be half a megabyte.
const MaxForeign = 64 << 20

// hasRoom reports whether the release of another process's token of that size may be owed.
// Those of this client's own are bounded by its lock requests; what other processes have
// locked is not, and a node may be down for days. n.mu is held.
func (n *Node) hasRoom(size int) bool {
	full := func() bool { return n.owed.len >= MaxBacklog || n.owed.foreign+n.repeats.foreign+size > MaxForeign }
	if now := time.Since(n.epoch); full() && now-n.swept >= time.Second {
		n.swept = now
		n.forget()
	}
	return !full()
}

// sendOwed queues the releases that are owed, ahead of everything else, and returns how
// many there are, with those that the connection before had not got as far as to write. n.mu is held.
func (n *Node) sendOwed() (count int) {
	count = n.owed.len
	var rest requestQueue
	for q := n.queue.pop(); q != nil; q = n.queue.pop() {
		if q.wasOwed {
			count++
		}
		rest.push(q)
	}
	for q := n.owed.pop(); q != nil; q = n.owed.pop() {
		q.Token.marks[q.Index] &^= markOwed
		n.push(q)
	}
	for q := rest.pop(); q != nil; q = rest.pop() {
		n.push(q)
	}
	return count
}

// noteUnknown notes a lock request or a repair whose outcome will not be known. n.mu is held.
func (n *Node) noteUnknown(q *Request) {
	q.Token.marks[q.Index] |= markUnknown
	n.unknown++
	n.unknowns++
}

// forget drops what nothing can be left of. n.mu is held.
func (n *Node) forget() {
	now := time.Since(n.epoch)
	for q := n.owed.head; q != nil; {
		next := q.next
		if now >= q.gone {
			n.owed.remove(q)
			q.Token.marks[q.Index] &^= MarkSent | markOwed
		}
		q = next
	}
}

// A settlement is what a connection has to settle of those before it.
type settlement struct {
	unknown  int // outcomes
	released int // of those that were owed
	owed     int // releases that are still to be answered
}

// begin tells the observer if there is nothing to wait for. n.mu is held.
func (s *settlement) begin(n *Node, unknown, owed int) {
	s.unknown, s.owed = unknown, owed
	if owed == 0 {
		s.end(n)
	}
}

// answered counts the answer to a release that was owed: done if it was carried out.
// n.mu is held.
func (s *settlement) answered(n *Node, done bool) {
	if done {
		n.cleaned++
		s.released++
	}
	if s.owed--; s.owed == 0 {
		s.end(n)
	}
}

// end tells the observer, if there is something to tell, also when the connection has broken
// before all was settled. n.mu is held.
func (s *settlement) end(n *Node) {
	if s.unknown > 0 || s.released > 0 {
		n.observer.Settled(s.unknown, s.released)
	}
	*s = settlement{}
}
