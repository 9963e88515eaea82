package node

import (
	"math"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
)

// This file is about error replies: which of them leave something to do.

const (
	// maxRetry is the longest wait before a refused release is repeated.
	maxRetry = 10 * time.Second

	// maxTries is where the count of them, which only the wait depends on, stops.
	maxTries = 100
)

// refused handles an error reply, and says whether the request was sent again.
// n.mu is held.
func (n *Node) refused(q *Request, err error) (error, bool) {
	code := conn.ErrorCode(err)
	if code == "NOSCRIPT" && !q.Eval {
		// SCRIPT FLUSH, or another server behind the same address. A lock may be
		// sent again only ahead of its release: behind it, it would leave an orphan.
		// It is sent again even if its round has been decided: on a node that is
		// always the last to answer, nothing else would bring the script back.
		if q.Kind == LockRequest && q.Token.marks[q.Index]&MarkReleased != 0 {
			q.Token.marks[q.Index] &^= MarkSent
			return err, false
		}
		q.Eval, n.forgot = true, true
		n.push(q)
		return nil, true
	}
	switch {
	case q.Kind == Release && q.Token.marks[q.Index]&MarkSent != 0:
		n.retry(q)
	case q.Kind == LockRequest && refusals[code]:
		q.Token.marks[q.Index] &^= MarkSent
	}
	return err, false
}

// refusals are the errors by which a server says that it has not carried out a
// script's first write. Behind others, such as those of a proxy, it may have.
var refusals = map[string]bool{
	"NOPERM": true, "NOAUTH": true, "WRONGTYPE": true, "OOM": true, "MISCONF": true, "READONLY": true,
	"LOADING": true, "BUSY": true, "MASTERDOWN": true, "CLUSTERDOWN": true, "MOVED": true, "ASK": true, "CROSSSLOT": true,
}

// after is the instant d from now, since the epoch; the end of time if that is
// beyond it.
func (n *Node) after(d time.Duration) time.Duration {
	now := time.Since(n.epoch)
	return now + min(d, math.MaxInt64-now)
}

// retry sends a release again that was answered with an error (BUSY, LOADING,
// a full disk): the key may still be there. It gives up when the key must have
// expired. n.mu is held.
func (n *Node) retry(q *Request) {
	gone := q.gone
	if gone == 0 {
		// No request that could have lengthened the key's life came after this one.
		gone = n.after(q.Token.Longest())
	}
	left := gone - time.Since(n.epoch)
	if left < 0 {
		return
	}
	// Many may be waiting for long, so that the wait grows with what is left.
	wait := min(100*time.Millisecond<<min(q.tries, 10), max(MaxBackoff, min(left/16, maxRetry)))
	if n.closing {
		wait = n.Timeout / 8 // Close waits for it, but not longer than the node timeout.
	}
	again := &Request{
		Task: &Task{
			Kind: Release, Command: q.Token.owner.ReleaseCommand(time.Now().Add(wait)), Token: q.Token, Limit: q.Limit, gone: gone,
			Voter: q.Token.owner.ReleaseVoter(),
		},
		Index: q.Index, tries: min(q.tries+1, maxTries),
	}
	n.repeats.push(again)
	time.AfterFunc(wait, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if again.queue == &n.repeats {
			n.repeats.remove(again)
			n.push(again)
			n.sendDrainPing()
		}
	})
}
