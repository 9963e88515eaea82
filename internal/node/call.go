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

// Aside asks the node something that no call waits for, and that must cost none anything. It is not sent unless the
// node is connected and answers; the answer is no vote, and neither a sign of life nor a miss: the PING of an idle
// connection is due as ever.
func (n *Node) Aside(i int, cmd Command, r Receiver) (sent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	sent = n.state == nodeUp && !n.closing && !n.isSilent(time.Now(), n.Timeout) && n.backlog() < MaxBacklog
	if sent {
		n.push(&Request{Task: &Task{Kind: Aside, Command: cmd, Receiver: r, Limit: n.Timeout}, Index: uint16(i), Eval: true})
	}
	return sent
}
