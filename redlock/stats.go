package redlock

// Stats is a snapshot of a Redlock's state and counters.
type Stats struct {
	Nodes   []NodeStats // in the order given to New
	Held    int         // locks acquired and neither released, lost nor expired
	Kept    int         // of those, locks that KeepAlive or Do hold
	Asking  int         // attempts whose requests are with the nodes, undecided
	Queued  int         // attempts that wait for their turn, since as many as Window are asking
	Window  int         // how many may ask at the same time; it follows how soon the nodes answer
	Waiting int         // Lock calls that have been refused, or stand in line, and wait

	// Counters since New.
	Acquired      int64 // locks
	Extended      int64 // successful extensions
	Repaired      int64 // keys' sets that were given back to a node that had lost them
	Unlocked      int64 // releases that returned nil
	Taken         int64 // attempts that failed with ErrTaken
	NoQuorum      int64 // rounds of any operation that failed with ErrNoQuorum, but not those cut short by a context
	Overloaded    int64 // attempts that were turned away before they had asked any node; not in NoQuorum
	Lost          int64 // extensions and releases that found the lock lost or expired
	Splits        int64 // attempts in which a split vote had to be resolved
	Raised        int64 // attempts with fencing that took a further round trip, as the nodes' counters differed
	Woken         int64 // attempts that a release has set off
	EventsDropped int64 // because the hook was too slow

	HoldsEnded HoldsEnded // of locks that KeepAlive or Do held
}

// HoldsEnded counts why holds have ended, as the causes of their contexts say. Lost and
// Expired are the losses: work may have gone on without a lock.
type HoldsEnded struct {
	Released int64 // by Unlock
	Expired  int64 // ErrExpired
	Lost     int64 // ErrLost
	MaxHold  int64 // ErrMaxHold
	Closed   int64 // ErrClosed
}

// NodeStats is the state of one node's connection.
type NodeStats struct {
	Node     string
	Up       bool  // connected and ready
	Listens  bool  // releases are heard of, for Lock calls that wait
	Err      error // why it is not, if an attempt has failed
	Abstains error // why it grants no lock though it is up, as last heard: matches ErrQuarantined or ErrConfigMismatch
	Backlog  int   // requests queued or unanswered
	Unknown  int64 // lock requests whose outcome was left unknown by a broken connection
	Cleaned  int64 // locks whose release a broken connection had left open, and a later one has carried out
	Debts    int   // locks whose release has to wait for the next connection
	Connects int64 // attempts to connect
}

// Stats returns what is going on. It does no I/O.
func (r *Redlock) Stats() Stats {
	must(r.invalid())
	s := Stats{
		Held:          r.held.count(),
		Kept:          r.keeper.count(),
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
		EventsDropped: r.events.dropped.Load(),
		HoldsEnded:    r.counters.holds.stats(),
	}
	s.Asking, s.Queued, s.Window = r.admission.Stats()
	for _, n := range r.nodes {
		s.Nodes = append(s.Nodes, n.stats())
	}
	return s
}

// stats is the state of the node as Stats shows it.
func (n *node) stats() NodeStats {
	s := n.status()
	return NodeStats{
		Node: n.name, Up: s.up, Err: s.down, Abstains: s.abstains, Backlog: s.backlog, Listens: n.ear.isUp(),
		Unknown: s.unknown, Cleaned: s.released, Debts: s.owed, Connects: s.connects,
	}
}
