package redlock

import (
	"context"
	"errors"
	"time"
)

// call asks one node and waits for its answer.
func (n *node) call(ctx context.Context, cmd command, timeout time.Duration) outcome {
	answer := make(chan outcome, 1)
	q := &request{task: &task{kind: askKind, cmd: cmd, voter: mailbox(answer), limit: timeout}}
	if err := n.enqueue(q, time.Now()); err != nil {
		return outcome{err: err}
	}
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case out := <-answer:
		return out
	case <-t.C:
		n.withdraw(q)
		return outcome{err: errTimeout}
	case <-ctx.Done():
		n.withdraw(q)
		return outcome{err: errors.New("not waited for")}
	}
}

// A mailbox is the voter of a single request.
type mailbox chan outcome

func (m mailbox) vote(_ int, out outcome, _ time.Time) { m <- out }
