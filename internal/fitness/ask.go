package fitness

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed6c881748/redlock/internal/conn"
)

// questions asks on a borrowed connection until it breaks.
type questions struct {
	ctx    context.Context //nolint:containedctx // It bounds the questions, and lives as long.
	wire   *conn.Wire
	broken error // the connection is of no use any more
}

var errLate = errors.New("no reply in time")

// ask sends the commands together. There are as many answers, unless the
// connection breaks: then none.
func (q *questions) ask(commands ...[]any) []conn.Answer {
	if q.broken != nil {
		return nil
	}
	if q.broken = q.wire.SendAll(commands); q.broken != nil {
		return nil
	}
	answers := make([]conn.Answer, len(commands))
	for i := range answers {
		reply, err := q.wire.Receive(0) // It is aborted when ctx ends, and not before.
		if err != nil && !conn.IsReply(err) {
			if q.ctx.Err() != nil {
				err = errLate
			}
			q.broken = fmt.Errorf("%v: %w", commands[i][0], err)
			return nil
		}
		answers[i] = conn.Answer{Reply: reply, Err: conn.WithoutArguments(err)}
	}
	return answers
}
