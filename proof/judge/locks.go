package judge

import (
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// Locks are the numbers of locks that were got. What nobody else wanted shows little.
type Locks struct {
	All       int `json:"all"`
	Contended int `json:"contended"` // Somebody else wanted a resource meanwhile.
	Plain     int `json:"plain"`     // Those of the contended ones that have no fence.
	AtExpiry  int `json:"atExpiry"`  // They followed one that was left to expire, within a second.
	// LeastGap is how long after the Until of such a one the first of them was got.
	LeastGap int64 `json:"leastGap,omitempty"`
}

// count counts the locks of a run.
func (r *run) count() (n Locks) {
	contended := make(map[*lock]bool)
	for _, res := range r.resources {
		calls := r.wanting(res)
		var last *lock
		for _, l := range r.byResource[res] {
			for _, c := range calls {
				if c.begin.At > l.over {
					break
				}
				if c != l.acquired && c.returned(r) >= l.asked {
					contended[l] = true
					break
				}
			}
			if last != nil && len(last.unlocks) == 0 && len(last.releases) == 0 && last.lost == nil && last.exact && (!r.bare(res) || !r.lostData(-1, last.asked, l.got)) {
				n.follows(l.got - last.until)
			}
			if last == nil || l.until > last.until {
				last = l
			}
		}
	}
	n.All = len(r.locks)
	for l := range contended {
		n.Contended++
		if l.fence == 0 {
			n.Plain++
		}
	}
	return n
}

// follows counts a lock that was got so long after another one had ended.
func (n *Locks) follows(gap int64) {
	if gap >= int64(time.Second) {
		return
	}
	if n.AtExpiry++; n.AtExpiry == 1 || gap < n.LeastGap {
		n.LeastGap = gap
	}
}

// wanting are the calls for a resource, by when they began.
func (r *run) wanting(res string) (calls []*call) {
	for _, c := range r.inOrder {
		if op := c.begin.Op; (op == history.OpLock || op == history.OpTryLock) && slices.Contains(c.begin.Resources, res) {
			calls = append(calls, c)
		}
	}
	return calls
}
