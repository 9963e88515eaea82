package redlock

import (
	"context"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
)

// A dialect has the scripts of a session sent in another way than they are given: as
// other texts, with one more key and more arguments. What that is, it finds out in the
// handshake of each connection.
type dialect interface {
	// questions are commands that the handshake sends together with its own.
	questions() [][]any

	// learn gets the answers, and may ask more on the connection. An error ends it.
	learn(ctx context.Context, w *conn.Wire, answers []conn.Answer) (connDialect, error)
}

// A connDialect is the dialect on one connection. heard and abstains are called with the
// node's mutex held, the others by the connection's writer.
type connDialect interface {
	// script is the one to send instead of s: by its source if eval; forgot says that
	// the server has forgotten scripts since the handshake.
	script(s *script, eval, forgot bool) *script

	key() any    // comes last of the keys
	args() []any // come last of the arguments

	// heard gets the answers to scripts of a session.
	heard(out outcome, now time.Time)

	// abstains says why the node grants no lock at present, as far as is known.
	abstains(now time.Time) error
}
