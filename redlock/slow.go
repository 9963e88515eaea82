package redlock

import (
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// This file is about a minority of nodes that take much longer to answer than a quorum of others: in another region, say.
// A lock that is free costs no more for them. One that is contended would cost as many of their round trips as it takes
// to settle who gets it, and what they answer mostly tells of an earlier lock. So where an attempt is refused, the others
// settle it among themselves, as if the slow nodes were silent. Who has the lock hangs on none of this: a slow node's
// late yes counts like any other, and a lock is still only a quorum that has granted one token within its validity.

// isSlow reports whether a node that takes so long to answer is not worth waiting for, where others have taken no more
// than the second time: a contest among them takes about two round trips.
func isSlow(takes, others time.Duration) bool {
	return takes > max(3*others, others+time.Millisecond)
}

// isSlower reports whether node i is so much slower than a quorum of others, which are heard of as well, that what it
// tells is old news.
func (co *core) isSlower(i int) bool {
	takes, quick := co.nodes[i].Takes(), 0
	for j, n := range co.nodes {
		if others := n.Takes(); j != i && others > 0 && isSlow(takes, others) && n.Listens() {
			quick++
		}
	}
	return quick >= co.need
}

// withoutSlowLocked is the verdict where all votes that are still pending are those of slow nodes: that the lock is taken
// if there is no quorum without them, and silence is not the reason. rd.mu is held.
func (rd *round) withoutSlowLocked(now time.Time) verdict {
	t := rd.tally
	for i := range rd.ballots {
		switch {
		case rd.ballots[i].stance != node.Pending:
		case isSlow(rd.r.nodes[i].Takes(), now.Sub(rd.start)-rd.asked):
			t.unanswered++
		default:
			return undecided
		}
	}
	if rd.judge(t, rd.r.need, len(rd.ballots)) == taken {
		return taken
	}
	return undecided
}
