package node

import "time"

// Stats are the state of a node, and its counters. The fields are those of redlock.NodeStats, in the same order: it has
// their words. What the rules do not know of is left to others.
type Stats struct {
	Node            string // by package link
	Up              bool
	Listens         bool // by package link
	Err             error
	Abstains        error
	Backlog         int
	Unknown         int64
	Cleaned         int64
	PendingReleases int
	Repeats         int
	RepeatsDropped  int64
	Connects        int64 // by package link
	Unresponsive    error
	Vanished        int64
	VanishedAt      time.Time
	RTT             time.Duration
	Votes           struct{ Yes, Taken, Lost, Timeout, Overloaded, Quarantined, Failed int64 } // by package redlock
}

// Stats returns the state of the node, and what was counted.
func (n *Node) Stats(now time.Time) Stats {
	s := n.stats
	s.Up, s.Err, s.Abstains, s.Backlog, s.RTT = n.state == Up, n.down, n.Abstains(now), n.backlog(), n.rtt.smoothed
	s.PendingReleases, s.Repeats = n.releases.open, n.releases.len-n.releases.open
	s.RepeatsDropped = n.releases.dropped
	if s.Up {
		s.Unresponsive = n.unresponsive(now)
	}
	return s
}
