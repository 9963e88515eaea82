package node

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
)

// This file is about what a broken connection leaves behind: lock requests that may
// have run, may still run or never will, and releases that were not answered.
//
// Two things settle it on the next connection, in this order:
//
//   - the tombstone: the node refuses the lock requests and repairs of earlier
//     connections from then on;
//   - the releases that are owed, ahead of all other requests.
//
// Nothing else is taken away. In particular no key of a token whose release nobody has
// asked for: it may be held, and an extension or a repair may have made this node a
// counted vote since. A message that takes such a key away, delivered late or twice,
// lets in a second holder. So the only messages that delete keys are releases, of
// tokens that are dead and never used again. That makes exclusion safe from late and
// duplicated messages of any kind and age, whatever the tombstone does. The tombstone
// and the order only prevent that a key is left behind: a release that ran before a
// late lock request would not be the last word.
//
// TestUnknownModel… proves both, and finds what goes wrong without each of them.

// MinTombstone is the least life of a tombstone, and for how long something late is
// reckoned with. A lock request that arrives even later can set its key again, for one
// ttl.
const MinTombstone = time.Minute

// addOwed keeps a release that could not be sent, or was not answered, for the next
// connection. n.mu is held.
func (n *Node) addOwed(q *Request) {
	if q.Kind != Release {
		return // A token that may have left something has its own release, when it comes.
	}
	m := &q.Token.marks[q.Index]
	if *m&MarkSent == 0 || *m&markOwed != 0 {
		return
	}
	if *m&markForeign != 0 && !n.hasRoom(q.Token.size) {
		return
	}
	*m |= markOwed
	ends := q.gone
	if ends == 0 {
		ends = n.after(max(q.Token.Longest(), MinTombstone))
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
	full := func() bool { return n.owed.len >= MaxBacklog || n.owed.foreign+size > MaxForeign }
	if now := time.Since(n.epoch); full() && now-n.swept >= time.Second {
		n.swept = now
		n.forget()
	}
	return !full()
}

// sendOwed queues the releases that are owed, ahead of everything else, and returns how
// many there are. n.mu is held.
func (n *Node) sendOwed() (count int) {
	count = n.owed.len
	var rest requestQueue
	for q := n.queue.pop(); q != nil; q = n.queue.pop() {
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
	n.unknown++
	n.unknowns++
	n.life = max(n.life, q.Token.Longest(), MinTombstone)
	n.late = max(n.late, n.after(n.life))
}

// forget drops what nothing can be left of, and of which nothing can arrive any more
// that a tombstone would still refuse. n.mu is held.
func (n *Node) forget() {
	now := time.Since(n.epoch)
	if now >= n.late {
		n.unknown, n.life = 0, 0
	}
	for q := n.owed.head; q != nil; {
		next := q.next
		if now >= q.gone {
			n.owed.remove(q)
			q.Token.marks[q.Index] &^= MarkSent | markOwed
		}
		q = next
	}
}

// tombstoneStep puts up the tombstone of generation gen, which is to live for the given
// time. EVAL, not EVALSHA: the server may not know the script.
func (n *Node) tombstoneStep(gen int64, life time.Duration) conn.Step {
	command := []any{"EVAL", Tombstone.Source, 1, n.tombstoneKey, gen, life.Milliseconds() + 1}
	return conn.Step{Command: command, Check: func(a conn.Answer) error {
		err := a.Err
		if err == nil {
			err = Tombstone.Decode(a.Reply).Err
		}
		if err != nil && !isForbiddenKey(err) { // A lock request would have been refused for the same reason.
			return fmt.Errorf("clean-up: %w", err)
		}
		return nil
	}}
}

// isForbiddenKey reports whether the server refused a command because of a key
// in it, by the wording of Redis 6 or that of later ones and Valkey. That the user
// may not run the command at all is another matter.
func isForbiddenKey(err error) bool {
	if conn.ErrorCode(err) != "NOPERM" {
		return false
	}
	s := err.Error()
	return strings.Contains(s, "to access a key") || strings.Contains(s, "to access one of the keys")
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
