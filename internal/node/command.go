package node

import (
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
)

// A Kind decides what happens to a request that cannot be carried out.
type Kind uint8

// The kinds of requests.
const (
	Ask           Kind = iota // extend, inspect, a PING: may be dropped at any time
	LockRequest               // once written, its outcome must be settled
	RepairRequest             // as a LockRequest, but never sent twice
	Release                   // is never dropped: if it cannot be sent, it is owed
	Aside                     // see Node.Aside
)

// A Command is a script with its arguments, boxed for redigo once rather than
// once per node.
type Command struct {
	Script *Script // nil: a PING
	Keys   []any
	Args   []any

	encoded []byte // see Encode; nil: it is encoded for each node

	// Timed commands depend on the time of sending. They are releases, which are made
	// anew when they are written.
	Timed bool
}

// maxEncoded bounds the bytes of a command that is encoded once for all nodes.
const maxEncoded = 4 << 10

// Encode encodes the command into b as most nodes are sent it, once for all of them, unless it is so large
// that it should not be kept for as long as its round.
func (c *Command) Encode(b []byte) {
	var space [8]any
	if c.isDirect() {
		args := c.directArgs(space[:0])
		b = conn.AppendCommand(conn.AppendCommand(b, "SET", args), "PTTL", args[:1])
	} else {
		verb, args := c.run(space[:0], nil, false, false)
		b = conn.AppendCommand(b, verb, args)
	}
	if len(b) <= maxEncoded {
		c.encoded = b
	}
}

// isDirect reports whether the command can be sent without its script.
func (c *Command) isDirect() bool {
	return c.Script != nil && c.Script.Direct != nil && len(c.Keys) == 1
}

// directArgs appends the arguments of the SET of a lock request. The first is all that PTTL takes.
func (c *Command) directArgs(args []any) []any {
	return append(args, c.Keys[0], c.Args[0], "NX", "GET", "PX", c.Args[1])
}

// run returns the command that runs the script, by its source if eval, and appends its arguments. The dialect is nil
// if it has nothing to say about the script; forgot is for it.
func (c *Command) run(args []any, dialect ConnDialect, eval, forgot bool) (verb string, _ []any) {
	script, keys, last := c.Script, len(c.Keys), []any(nil)
	if dialect != nil {
		script, last = dialect.Script(script, eval, forgot), dialect.Args()
		keys++
	}
	if args == nil {
		args = make([]any, 0, 2+keys+len(c.Args)+len(last))
	}
	verb, program := "EVALSHA", script.Hash
	if eval {
		verb, program = "EVAL", script.Source
	}
	args = append(args, program, keys)
	args = append(args, c.Keys...)
	if dialect != nil {
		args = append(args, dialect.Key())
	}
	args = append(args, c.Args...)
	return verb, append(args, last...)
}

// A Receiver gets what nodes have answered to requests.
type Receiver interface {
	// Receive gets the outcome on node i, and when it was known. It is called at most once
	// per request, without locks.
	Receive(i int, out Outcome, at time.Time)
}
