package link

import (
	"context"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

// A Dialect has the scripts that grant sent in another way than they are given: as other texts, with one more key and
// more arguments. What that is, it finds out in the handshake of each connection.
type Dialect interface {
	// Questions are commands that the handshake sends together with its own.
	Questions() [][]any

	// Learn gets the answers, and may ask more on the connection. An error ends it.
	Learn(ctx context.Context, w *conn.Wire, answers []conn.Answer) (node.ConnDialect, error)
}
