package link

import (
	"context"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

// A Dialect changes how scripts that grant are sent: their text, one more key and more arguments. It learns in the
// handshake of each connection what to send.
type Dialect interface {
	// Questions are commands that the handshake sends together with its own.
	Questions() [][]any

	// Learn gets the answers, and may ask more on the connection. An error ends the connection.
	Learn(ctx context.Context, w *conn.Wire, answers []conn.Answer) (node.ConnDialect, error)
}
