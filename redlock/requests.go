package redlock

import (
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// How a round asks the nodes: all of them at first, and some of them once more if what they
// have answered is not enough.

// ask sends the requests. start is what Took is measured from; the round ends at the latest timeout from now.
func (rd *round) ask(start time.Time, timeout time.Duration) {
	rd.mu.Lock()
	rd.start, rd.task.Limit = start, timeout
	now := rd.beginLocked(timeout)
	requests := rd.requests
	rd.mu.Unlock()
	rd.r.wake(now)
	for i := range requests {
		if requests[i].Task != nil {
			rd.send(&requests[i], now)
		}
	}
}

// again opens a decided round once more, to ask those nodes that have answered and of which more is wanted: more
// returns true for them, and may change what the vote of another is worth. Votes that are still pending count when
// they come: of one claim, a node never has two lock requests in flight, or the refusal of one could be taken for the
// whole truth about what the claim has left there. Both functions are called with rd.mu held.
func (rd *round) again(kind node.Kind, timeout time.Duration, command func() node.Command, more func(i int, b *ballot) bool) {
	rd.mu.Lock()
	n := len(rd.ballots)
	rd.latest = &node.Task{Kind: kind, Command: command(), Trace: rd.task.Trace, Receiver: rd, Limit: timeout}
	if kind == node.LockRequest {
		rd.latest.Lives = rd.task.Lives
	}
	rd.requests, rd.pending, rd.tally = make([]node.Request, n), n, tally{}
	rd.decided, rd.over, rd.verdict, rd.err, rd.settled = make(chan struct{}), false, undecided, nil, nil
	asked := make([]*node.Request, 0, n)
	for i := range rd.ballots {
		b := &rd.ballots[i]
		switch {
		case b.stance == node.Pending:
		case more(i, b):
			*b = ballot{err: ErrPending, stance: node.Pending}
			asked = append(asked, rd.requestLocked(i))
		default:
			rd.enter(i, *b)
		}
	}
	now := rd.beginLocked(timeout)
	rd.mu.Unlock()
	for _, req := range asked {
		rd.send(req, now)
	}
}

// requestLocked returns the request that is now to be sent to node i.
func (rd *round) requestLocked(i int) *node.Request {
	rd.requests[i] = node.Request{Task: rd.latest, Index: uint16(i)}
	return &rd.requests[i]
}

func (rd *round) send(req *node.Request, now time.Time) {
	if err := rd.r.nodes[req.Index].Enqueue(req, now); err != nil {
		rd.Receive(int(req.Index), node.Outcome{Err: err}, time.Now())
	}
}

// beginLocked judges the votes that are known already, as they may be enough, and limits the time for the others. The
// timer of earlier requests goes on: of those that still wait to be written, nothing else rids the node.
func (rd *round) beginLocked(timeout time.Duration) (now time.Time) {
	now = time.Now()
	rd.asked = now.Sub(rd.start)
	rd.judgeLocked(now)
	if rd.pending > 0 {
		task, requests := rd.latest, rd.requests
		rd.timer = time.AfterFunc(timeout, func() {
			if !rd.looksFirst(task, requests, time.Now()) {
				rd.expire(task, requests, 0)
			}
		})
	}
	return now
}

// looksFirst reports whether the timer comes back in a moment, as it is late: the process has stood still, and what has
// arrived meanwhile is to be read first. It counts only if Until is still ahead; see inTimeLocked.
func (rd *round) looksFirst(task *node.Task, requests []node.Request, now time.Time) bool {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	late := now.Sub(rd.start) - rd.asked - task.Limit
	if task != rd.latest || rd.pending == 0 || late < node.MinStandstill {
		return false
	}
	rd.r.stoodStill(now.Add(-late), now)
	rd.timer = time.AfterFunc(node.Arrival, func() { rd.expire(task, requests, late) })
	return true
}

// expire is the timer of what was asked with the task: requests that still wait to be written
// are withdrawn, and who has not answered has not voted, unless nodes were asked again
// meanwhile. They have another timer. stood is for how long the process has stood still.
func (rd *round) expire(task *node.Task, requests []node.Request, stood time.Duration) {
	now, why := time.Now(), ErrNodeTimeout
	if stood > 0 {
		why = node.StandstillError(stood)
	} else if !rd.until.IsZero() && rd.until.Passed(rd.r.clock.At(now)) {
		why = errTooLate
	}
	for i, nd := range rd.r.nodes {
		rd.mu.Lock()
		asked := requests[i].Task != nil
		rd.mu.Unlock()
		if asked {
			nd.Withdraw(&requests[i])
		}
		rd.voteOn(task, i, node.Outcome{Err: why}, now)
	}
}
