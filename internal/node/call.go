package node

import (
	"context"
	"errors"
	"time"
)

// Call asks one node and waits for its answer.
func (n *Node) Call(ctx context.Context, cmd Command, timeout time.Duration) Outcome {
	answer := make(chan Outcome, 1)
	q := &Request{Task: &Task{Kind: Ask, Command: cmd, Receiver: mailbox(answer), Limit: timeout}}
	if err := n.Enqueue(q, time.Now()); err != nil {
		return Outcome{Err: err}
	}
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case out := <-answer:
		return out
	case <-t.C:
		n.Withdraw(q)
		return Outcome{Err: ErrTimeout}
	case <-ctx.Done():
		n.Withdraw(q)
		return Outcome{Err: errors.New("not waited for")}
	}
}

// A mailbox is the receiver of a single request.
type mailbox chan Outcome

func (m mailbox) Receive(_ int, out Outcome, _ time.Time) { m <- out }
