package node

import "time"

// A ConnDialect is the dialect on one connection. Heard and Abstains are called in steps of the
// node, the others by the connection's writer.
type ConnDialect interface {
	// Script returns the script to send instead of s, by its source if eval. forgot: the server has forgotten scripts
	// since the handshake.
	Script(s *Script, eval, forgot bool) *Script

	Key() any    // comes last of the keys
	Args() []any // come last of the arguments

	// Heard gets the answers to scripts that grant.
	Heard(out Outcome, now time.Time)

	// Abstains returns why the node grants no lock at present, as far as is known; nil if it does.
	Abstains(now time.Time) error
}
