package node

import "time"

// A Kind decides what becomes of a request that cannot be carried out.
type Kind uint8

// The kinds of requests.
const (
	Ask           Kind = iota // extend, inspect, a PING: may be dropped at any time
	LockRequest               // once written, it may come late if there is no answer
	RepairRequest             // like LockRequest, but only for a node that is up, and for a time: see Task.Within
	Release                   // if it cannot be sent, it is owed, unless there is nothing to release
	Aside                     // see Node.Aside
)

// A Command is a script with its arguments, boxed for redigo once rather than once per node.
type Command struct {
	Script *Script // nil: a PING
	Keys   []any
	Args   []any

	Encoded []byte // in the form for most nodes; nil: it is encoded for each node

	// Timed commands depend on the time of sending. They are releases, and are made anew when they are written.
	Timed bool
}

// IsDirect reports whether the command can be sent without its script.
func (c *Command) IsDirect() bool {
	return c.Script != nil && c.Script.Direct != nil && len(c.Keys) == 1
}

// A Receiver gets the answers of nodes to requests.
type Receiver interface {
	// Receive gets the outcome on node i, and when it was known. It is called at most once
	// per request, without locks.
	Receive(i int, out Outcome, at time.Time)
}
