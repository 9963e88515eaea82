package lease

import "time"

// A Lease is a lock that was got: until when it may be relied on, and how it has ended. Nothing revives one that has
// ended. It is not safe for concurrent use.
type Lease struct {
	*Config
	Start    time.Time     // of the attempt
	Until    Deadline      // its end, unless it is extended
	Extended time.Time     // start of the last extension that succeeded, or of the attempt
	Lasted   time.Duration // for how long it was held; set with Ended
	Ended    Verdict       // Expired; Lost once it was found lost or its release has begun; Undecided while it is held
	Before   Verdict       // how it had ended before its release, or what that has shown; Undecided: it was held to the end
	Release  Release
	again    bool // the latest release, since the one before was not confirmed
	late     bool // Until had passed when it began

	repairs []bool // by node: one is on its way; nil before the first
}

// A Release is how far the release of a lease has come.
type Release uint8

// The steps of a release.
const (
	Held          Release = iota // it has not begun, whether the lease has ended or not
	BeingReleased                // nodes are asked
	Unconfirmed                  // no quorum has answered: it may be repeated
	Released                     // with a result that is final
)

// Got returns the lease of a round that was granted.
func (r *Round) Got() Lease {
	return Lease{Config: r.Config, Start: r.Start, Extended: r.Start, Until: r.Until()}
}

// Check returns how the lease has ended. It makes an expiry terminal: no later extension revives the lease.
func (l *Lease) Check(now time.Time) Verdict {
	if l.Ended == Undecided && l.Until.Passed(l.Clock(now)) {
		l.end(Expired, now)
	}
	return l.Ended
}

// end ends the lease, unless it has ended before.
func (l *Lease) end(why Verdict, now time.Time) {
	if l.Ended == Undecided {
		l.Ended, l.Lasted = why, l.HeldFor(now)
	}
}

// HeldFor returns how long the lease was held, up to now or to its end. (A timer that asks may be late.)
func (l *Lease) HeldFor(now time.Time) time.Duration {
	return min(now.Sub(l.Start), l.Until.Mono.Sub(l.Start))
}

// Prolong applies an extension, which a call has asked for or, if it is not nil, a hold. It is
//
//	Granted    Until is the later of both ends
//	Undecided  nothing that is to be told: what a release has deleted was not lost, and a hold that is over needs none
//	else       why not, and Until is as it was
//
// Each is a round of its own, and several may be under way: none shortens what another has given.
func (l *Lease) Prolong(r *Round, h *Hold, now time.Time) Verdict {
	v := r.Verdict
	if v == Expired {
		v = Granted // It is by the Until with which this one began. If another has moved it since, it counts.
	}
	switch ended := l.Check(now); {
	case ended != Undecided && l.Release != Held && h != nil:
		return Undecided
	case ended != Undecided:
		return ended
	case v == Granted && h != nil && h.Cause != Undecided:
		return Undecided
	case v == Granted && r.Until().Passed(l.Clock(now)):
		return NoQuorum // Too late to be worth anything.
	case v == Granted:
		l.Until = l.Until.Later(r.Until())
		if r.Start.After(l.Extended) {
			l.Extended = r.Start
		}
	case v == Lost:
		l.end(Lost, now)
	case v == Undecided: // It was given up.
		return NoQuorum
	}
	return v
}

// MayRepair reports whether node i, of n nodes, gets back the keys that it has lost, and how long the lease still lasts.
// It says no if the lease has ended, or while an earlier repair of that node is under way, which Repaired ends.
func (l *Lease) MayRepair(i, n int, now time.Time) (left time.Duration, may bool) {
	if l.Check(now) != Undecided {
		return 0, false
	}
	if l.repairs == nil {
		l.repairs = make([]bool, n)
	}
	may = !l.repairs[i]
	l.repairs[i] = true
	return l.Until.Remaining(l.Clock(now)), may
}

// Repaired is called when node i has answered a repair, or will not.
func (l *Lease) Repaired(i int) {
	if l.repairs != nil { // If not, the lock was passed on meanwhile.
		l.repairs[i] = false
	}
}

// Unlock ends the lease, as its release begins. It reports whether an earlier release was not confirmed.
func (l *Lease) Unlock(now time.Time) (again bool) {
	l.again = l.Release == Unconfirmed
	prior := l.Check(now)
	l.late = prior == Expired || l.Until.Passed(l.Clock(now))
	if !l.again {
		l.Before = prior
	}
	l.Release = BeingReleased
	l.end(Lost, now)
	return l.again
}

// Unlocked is Granted if a release was one of a lock that was held, by the verdict of its votes, and else why not. What
// the holder's own clocks have said counts before what the nodes say: keys that outlive Until for the drift allowance,
// and nodes that do not answer, must not make a lock that had ended look like one that was held to the end.
func (l *Lease) Unlocked(v Verdict) Verdict {
	l.Release = Released
	if v == NoQuorum {
		l.Release = Unconfirmed
	}
	switch {
	case l.Before != Undecided:
		return l.Before
	case v == Lost && l.late:
		return Expired
	case v == Lost && !l.again:
		l.Before = Lost
	}
	return v
}
