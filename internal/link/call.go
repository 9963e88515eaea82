package link

import (
	"context"
	"errors"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// Call asks one node and waits for its answer.
func (l *Link) Call(ctx context.Context, cmd node.Command, timeout time.Duration) node.Outcome {
	answer := make(chan node.Outcome, 1)
	q := &node.Request{Task: &node.Task{Kind: node.Ask, Command: cmd, Receiver: mailbox(answer), Limit: timeout}}
	if err := l.Enqueue(q, time.Now()); err != nil {
		return node.Outcome{Err: err}
	}
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case out := <-answer:
		return out
	case <-t.C:
		l.Withdraw(q)
		return node.Outcome{Err: node.ErrTimeout}
	case <-ctx.Done():
		l.Withdraw(q)
		return node.Outcome{Err: errors.New("not waited for")}
	}
}

// A mailbox is the receiver of a single request.
type mailbox chan node.Outcome

func (m mailbox) Receive(_ int, out node.Outcome, _ time.Time) { m <- out }
