package node

import "time"

// A ConnDialect is the dialect on one connection. Heard and Abstains are called in steps of the
// node, the others by the connection's writer.
type ConnDialect interface {
	// Script is the one to send instead of s: by its source if eval; forgot says that
	// the server has forgotten scripts since the handshake.
	Script(s *Script, eval, forgot bool) *Script

	Key() any    // comes last of the keys
	Args() []any // come last of the arguments

	// Heard gets the answers to scripts that grant.
	Heard(out Outcome, now time.Time)

	// Abstains says why the node grants no lock at present, as far as is known.
	Abstains(now time.Time) error
}
