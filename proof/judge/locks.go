package judge

import (
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

// Locks are the numbers of locks that were got. What nobody else wanted shows little.
type Locks struct {
	All       int `json:"all"`
	Contended int `json:"contended"` // Somebody else wanted a resource meanwhile.
}

// count counts the locks of a run.
func (r *run) count() Locks {
	contended := make(map[*lock]bool)
	for _, res := range r.resources {
		calls := r.wanting(res)
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
		}
	}
	return Locks{len(r.locks), len(contended)}
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
