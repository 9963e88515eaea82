package link

import (
	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

// maxEncoded bounds the bytes of a command that is encoded once for all nodes.
const maxEncoded = 4 << 10

// Encode encodes a command into b in the form that most nodes get, once for all of them. It encodes none that is too
// large to be kept for as long as its round.
func Encode(c *node.Command, b []byte) {
	var space [8]any
	if c.IsDirect() {
		verb, args := direct(c, "", space[:0])
		b = conn.AppendCommand(conn.AppendCommand(b, verb, args), "PTTL", c.Keys)
	} else {
		verb, args := run(c, space[:0], nil, false, false)
		b = conn.AppendCommand(b, verb, args)
	}
	if len(b) <= maxEncoded {
		c.Encoded = b
	}
}

// direct returns the server's own command that replaces the script, and appends its arguments. PTTL of the last key
// follows it.
func direct(c *node.Command, deletes string, args []any) (verb string, _ []any) {
	switch args = append(args, c.Keys[0]); {
	case !c.Script.Deletes:
		return "SET", append(args, c.Args[0], "NX", "GET", "PX", c.Args[1])
	case deletes == "DELEX":
		args = append(args, "IFEQ")
	}
	return deletes, append(args, c.Args[0])
}

// run returns the command that runs the script, by its source if eval, and appends its arguments. dialect is nil if it
// does not change the script; it gets forgot.
func run(c *node.Command, args []any, dialect node.ConnDialect, eval, forgot bool) (verb string, _ []any) {
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
