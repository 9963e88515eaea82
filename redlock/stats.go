package redlock

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// Stats is a snapshot of a Redlock's state and counters. It belongs to the caller.
type Stats struct {
	Nodes   []NodeStats // in the order given to New
	Held    int         // locks that were acquired and are neither released, lost nor expired
	Kept    int         // of those, the locks that KeepAlive or Do extend
	Asking  int         // attempts whose requests are with the nodes and undecided
	Queued  int         // attempts that wait for their turn, as Window attempts are asking
	Window  int         // how many attempts may ask at the same time; follows how soon the nodes answer
	Waiting int         // Lock calls that wait: refused, or behind others of this process

	// Counters since New.
	Acquired      int64 // locks that were acquired
	Extended      int64 // extensions that succeeded
	Repaired      int64 // times that a node was given back the keys of a held lock that it had lost
	Unlocked      int64 // releases that returned nil
	Taken         int64 // attempts that failed with ErrTaken
	NoQuorum      int64 // rounds of any operation that failed with ErrNoQuorum and were not cut short by a context
	Overloaded    int64 // attempts that were turned away before they had asked any node; not in NoQuorum
	Lost          int64 // extensions and releases that found the lock lost or expired
	Splits        int64 // attempts in which a split vote had to be resolved
	Raised        int64 // attempts with fencing that took one more round trip, as the nodes' counters differed
	Woken         int64 // attempts that a release set off
	EventsDropped int64 // events that were dropped because the hook was too slow

	HoldsEnded HoldsEnded // ends of what KeepAlive and Do held, by cause
}

// HoldsEnded counts why holds by KeepAlive and Do have ended, as the causes of their contexts
// say. Lost and Expired are losses: work may have gone on without a lock.
type HoldsEnded struct {
	Released int64 // Unlock was called, by Do included
	Expired  int64 // ErrExpired
	Lost     int64 // ErrLost
	MaxHold  int64 // ErrMaxHold
	Closed   int64 // ErrClosed
}

// NodeStats is the state of the connection to one node, and its counters since New.
type NodeStats struct {
	Node            string // the node's name
	Up              bool   // the node is connected and ready
	Listens         bool   // Lock calls that wait hear of releases from this node
	Err             error  // why the node is not up; nil while it is, and until an attempt to connect has failed
	Abstains        error  // why the node is up and grants no lock, as last heard: matches ErrQuarantined or ErrConfigMismatch
	Backlog         int    // requests that are queued or unanswered
	Unknown         int64  // counter: lock requests whose outcome a broken connection left unknown
	Cleaned         int64  // counter: releases that a broken connection left open and a later connection carried out
	PendingReleases int    // releases that wait for the next connection
	Connects        int64  // counter: attempts to connect

	// RTT is how long a request takes from its writing to its reply, as a moving average over
	// about the last ten; 0 before the first reply. It stays as it was while the node is silent.
	RTT time.Duration

	Votes VoteCounts // counters: what the node has answered in rounds of all operations
}

// Stats returns a snapshot of what is going on. It does no I/O and may be called at any time,
// also after Close.
func (r *Redlock) Stats() Stats {
	must(r.invalid())
	s := Stats{
		Held:          r.held.Held(),
		Kept:          r.watch.Count(),
		Waiting:       int(r.counters.waiting.Load()),
		Acquired:      r.counters.acquired.Load(),
		Extended:      r.counters.extended.Load(),
		Repaired:      r.counters.repaired.Load(),
		Unlocked:      r.counters.unlocked.Load(),
		Taken:         r.counters.taken.Load(),
		NoQuorum:      r.counters.noQuorum.Load(),
		Overloaded:    r.counters.overloaded.Load(),
		Lost:          r.counters.lost.Load(),
		Splits:        r.counters.splits.Load(),
		Raised:        r.counters.raised.Load(),
		Woken:         r.counters.woken.Load(),
		EventsDropped: r.events.Dropped(),
		HoldsEnded:    holdsEnded(&r.counters.holds),
	}
	s.Asking, s.Queued, s.Window = r.admission.Stats()
	for i, n := range r.nodes {
		s.Nodes = append(s.Nodes, nodeStats(n))
		s.Nodes[i].Votes = r.votes[i].counts()
	}
	return s
}

// nodeStats is the state of the node as Stats shows it.
func nodeStats(n *node.Node) NodeStats {
	s := n.Status()
	return NodeStats{
		Node: n.Name, Up: s.Up, Err: s.Down, Abstains: s.Abstains, Backlog: s.Backlog, Listens: s.Listens,
		Unknown: s.Unknown, Cleaned: s.Released, PendingReleases: s.Owed, Connects: s.Connects, RTT: s.RTT,
	}
}

func holdsEnded(c *holdCounters) HoldsEnded {
	return HoldsEnded{
		Released: c.released.Load(), Expired: c.expired.Load(), Lost: c.lost.Load(), MaxHold: c.maxHold.Load(), Closed: c.closed.Load(),
	}
}

// String returns which nodes are up and how many locks there are. It does no I/O.
func (r *Redlock) String() string {
	if err := r.invalid(); err != nil {
		return plain(err)
	}
	stats := r.Stats()
	nodes := make([]string, len(stats.Nodes))
	for i, n := range stats.Nodes {
		switch {
		case n.Up:
			nodes[i] = n.Node + " up"
		case n.Err != nil:
			nodes[i] = n.Node + " down"
		default:
			nodes[i] = n.Node + " not connected yet"
		}
	}
	return fmt.Sprintf("redlock over %d nodes, quorum %d (%s): %d held, %d waiting",
		len(nodes), r.need, strings.Join(nodes, ", "), stats.Held, stats.Waiting)
}

// Format prints what String returns, whatever the verb.
func (r *Redlock) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, r.String()) }

// MarshalJSON returns the fields by their names, as usual, but for Err and Abstains, which are
// their texts, empty for none.
func (n NodeStats) MarshalJSON() ([]byte, error) {
	type fields NodeStats // Without this method.
	return json.Marshal(struct {
		fields

		Err, Abstains string
	}{fields(n), textOf(n.Err), textOf(n.Abstains)})
}

// textOf is the text of an error, empty for none.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
