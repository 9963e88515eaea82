package node

import (
	"context"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
)

// A Dialect has the scripts that grant sent in another way than they are given: as
// other texts, with one more key and more arguments. What that is, it finds out in the
// handshake of each connection.
type Dialect interface {
	// Questions are commands that the handshake sends together with its own.
	Questions() [][]any

	// Learn gets the answers, and may ask more on the connection. An error ends it.
	Learn(ctx context.Context, w *conn.Wire, answers []conn.Answer) (ConnDialect, error)
}

// A ConnDialect is the dialect on one connection. Heard and Abstains are called with the
// node's mutex held, the others by the connection's writer.
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
