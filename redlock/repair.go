package redlock

import (
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// A lock that is held for long would decay: every node that restarts without its
// data, or is flushed, has one vote less for it. So after an extension to which a
// quorum has said yes, the nodes that reported the key missing get it again.
//
// This cannot make a second holder: in that very extension a quorum had this
// lock's token, so nobody else had one. It does not count for the extension. It may
// arrive at any time, also twice: it sets only keys that are missing, and makes no life
// shorter. Otherwise a repair is a lock request: in order with the release on its
// connection, refused by the tombstone if its outcome is unknown. The library never
// sends it twice, nor after the lock has lapsed, as it would leave a key that nobody
// wants.

// repair is called when every node has voted in an extension that succeeded.
func (l *Lock) repair(ballots []ballot, ttl time.Duration) {
	for i, b := range ballots {
		if b.stance != node.Gone {
			continue
		}
		left, may := l.mayRepair(i)
		if !may {
			continue
		}
		n := l.r.nodes[i]
		r := &repairer{lock: l}
		r.task = node.Task{
			Kind: node.RepairRequest, Command: repairCommand(l.claim.keys, l.claim.token, ttl, l.claim.fencing), Token: &l.claim.Token, Voter: r,
			Limit: l.o.nodeTimeout,
		}
		// EVAL: it is rare, and not sent again if the script has been forgotten.
		r.request = node.Request{Task: &r.task, Index: uint16(i), Eval: true}
		if err := n.Repair(&r.request, min(left, l.o.nodeTimeout)); err != nil {
			r.Vote(i, node.Outcome{Err: err}, time.Time{})
		}
	}
}

// mayRepair reports whether node i is to be repaired, and for how long the lock
// still lasts: not if it has ended, and not twice at a time.
func (l *Lock) mayRepair(i int) (left time.Duration, may bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.errLocked(now) != nil {
		return 0, false
	}
	if l.repairs == nil {
		l.repairs = make([]bool, len(l.r.nodes))
	}
	may = !l.repairs[i]
	l.repairs[i] = true
	return l.until.remaining(now, l.r.wall()), may
}

// A repairer is a repair on its way.
type repairer struct {
	lock    *Lock
	task    node.Task
	request node.Request
}

func (r *repairer) Vote(i int, out node.Outcome, _ time.Time) {
	r.lock.mu.Lock()
	defer r.lock.mu.Unlock()
	r.lock.repairs[i] = false
	if out.Stance == node.Yes {
		r.lock.r.counters.repaired.Add(1)
	}
}
