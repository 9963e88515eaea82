package lease

import "github.com/seed6c881748/redlock/internal/node"

// Need is how many votes are needed: a strict majority of the nodes that were configured, not of those that answer.
func Need(n int) int { return n/2 + 1 }

// A Verdict is what a round has come to.
type Verdict uint8

// The verdicts.
const (
	Undecided Verdict = iota
	Granted
	Taken
	NoQuorum
	Lost
	Expired
	Behind // the votes are split, and another claim leads: this one's were given back, and a new one may try after Rest

	// Of a hold, besides Lost and Expired.
	StopTime
	MaxHold
	Closed
	ByRelease // by a release, of a lease that was held
)

// A tally is how many nodes have voted how.
type tally struct {
	yes     int
	no      int // answered, and said no
	silent  int // gave no answer: an error or a timeout
	pending int
}

func (t tally) nodes() int { return t.yes + t.no + t.silent + t.pending }

// count counts ballots.
func count(ballots []Ballot) (t tally) {
	for i := range ballots {
		switch ballots[i].Stance {
		case node.Yes:
			t.yes++
		case node.No, node.Gone:
			t.no++
		case node.Silent:
			t.silent++
		case node.Pending:
			t.pending++
		}
	}
	return t
}

// decide is the verdict on a question to n nodes, of which need must say yes.
//
//	need said yes                             Granted
//	more than n-need gave no answer           NoQuorum
//	more than n-need said no or gave none     no
//	otherwise                                 Undecided
func decide(t tally, need int, no Verdict) Verdict {
	spare := t.nodes() - need
	switch {
	case t.yes >= need:
		return Granted
	case t.silent > spare:
		return NoQuorum
	case t.no+t.silent > spare:
		return no
	default:
		return Undecided
	}
}

// decideLock: a lock that could not reach its quorum was taken, unless the nodes without an answer could
// prevent it alone. As long as those that are still out could become so many, nothing is decided: an outage
// must not be told as somebody's lock.
func decideLock(t tally, need int) Verdict {
	v := decide(t, need, Taken)
	if v == Taken && t.silent+t.pending > t.nodes()-need {
		return Undecided
	}
	return v
}

// decideRaise is decideLock for a raise of counters, which does not wait for who is to blame: others may still be raised.
func decideRaise(t tally, need int) Verdict {
	v := decide(t, need, Taken)
	if v == Taken && t.silent+t.pending > t.nodes()-need {
		return NoQuorum
	}
	return v
}

// decideExtend: an extension proves the lock lost only if so many nodes said "not yours" that no
// quorum can be left; nodes without an answer may still hold it. As long as those that are still
// out could prove it, no other failure is told: a hold would go on until its lease has ended.
func decideExtend(t tally, need int) Verdict {
	spare := t.nodes() - need
	if t.no > spare {
		return Lost
	}
	v := decide(t, need, NoQuorum)
	if v == NoQuorum && t.no+t.pending > spare {
		return Undecided
	}
	return v
}

// decideUnlock differs, because both answers are a success of the release: yes
// means "it was yours and is gone", no "it was not yours any more". It is
//
//	Lost      if more than n-need nodes said no: no quorum held it at the end
//	Granted   if need nodes answered, and those still pending cannot change that
//	NoQuorum  if need answers cannot be had any more, and those still pending cannot show a loss
func decideUnlock(t tally, need int) Verdict {
	spare := t.nodes() - need
	switch {
	case t.no > spare:
		return Lost
	case t.yes >= need, t.yes+t.no >= need && t.no+t.pending <= spare:
		return Granted
	case t.silent > spare && t.no+t.pending <= spare:
		return NoQuorum
	default:
		return Undecided
	}
}

// decideRelease differs from decideUnlock, because whoever releases by token alone does not know whether the lock had
// ended. So only a quorum of nodes that had the keys shows that nobody else had the lock. It is
//
//	Granted   if need nodes said yes
//	Lost      if more than n-need nodes said no: no quorum can have had it
//	NoQuorum  if those still pending can make it neither: it hangs on nodes that gave no answer
func decideRelease(t tally, need int) Verdict {
	spare := t.nodes() - need
	switch {
	case t.yes >= need:
		return Granted
	case t.no > spare:
		return Lost
	case t.yes+t.pending < need && t.no+t.pending <= spare:
		return NoQuorum
	default:
		return Undecided
	}
}
