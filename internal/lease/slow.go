package lease

import (
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// This file is about a minority of nodes that take much longer to answer than a quorum of others: in another region, say.
// A lock that is free costs no more for them. One that is contended would cost as many of their round trips as it takes
// to settle who gets it, and what they answer mostly tells of an earlier lock. So where an attempt is refused, the others
// settle it among themselves, as if the slow nodes were silent. Who has the lock hangs on none of this: a slow node's
// late yes counts like any other, and a lock is still only a quorum that has granted one token within its validity.

// IsSlow reports whether a node that takes so long to answer is not worth waiting for, where others have taken no more
// than the second time: a contest among them takes about two round trips.
func IsSlow(takes, others time.Duration) bool {
	return takes > max(3*others, others+time.Millisecond)
}

// withoutSlow is the verdict where all votes that are still pending are those of slow nodes: that the lock is taken
// if there is no quorum without them, and silence is not the reason.
func (r *Round) withoutSlow(now time.Time) Verdict {
	t := count(r.Ballots)
	if t.no == 0 {
		return Undecided
	}
	for i := range r.Ballots {
		if r.Ballots[i].Stance != node.Pending {
			continue
		}
		if !IsSlow(r.Takes(i), r.since(now)-r.asked) {
			return Undecided
		}
		t.pending--
		t.silent++
	}
	if decideLock(t, r.Need) == Taken {
		return Taken
	}
	return Undecided
}
