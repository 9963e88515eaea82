// Package lease has the rules of what asks all nodes: an attempt to get a lock, an extension, a release. They are
// values: nothing here waits, sends, locks a mutex or looks at a clock. Whoever drives a Round, package redlock or a
// search, says what has happened and when, and carries out the effects.
package lease

import (
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// A Config is what the rules are told once.
type Config struct {
	Need int // so many nodes must say yes

	// Clock returns now, or a later time, and by how much the monotonic clock is behind then; see [Deadline].
	Clock func(now time.Time) (at time.Time, lead time.Duration)

	Takes    func(i int) time.Duration           // how long node i has taken to answer of late; 0: not known
	Random   func(d time.Duration) time.Duration // at least 0, and below d
	Digest   func(token string) string           // by which refusals name a token
	Reserved error                               // of a vote that leaves a free resource to another client
	Pending  error                               // of a vote that is not in yet
	TooLate  error                               // of one that did not come before Until
}

// A Kind says what a round is about.
type Kind uint8

// The kinds.
const (
	Locking Kind = iota
	Extending
	Unlocking
	Releasing // by token, of another process's lock
)

// A Stage is what a round waits for.
type Stage uint8

// The stages.
const (
	Asking    Stage = iota // votes that decide
	Raising                // those of nodes that raise their counters to the fence
	Gathering              // votes that are still out, as they may show who leads where votes are split
	Leading                // the others to give way, as this claim leads
	Over                   // nothing: votes that still come change nothing but what is known of the nodes
)

// An Effect is what is to be done after a step. Several may be, in this order.
type Effect uint16

// The effects.
const (
	Counted    Effect = 1 << iota // the vote was one
	Raised                        // nodes have granted the lock with different counters
	Split                         // votes are split, and this claim contends
	Decided                       // a question was decided, by the votes as they are, with the verdict Latest
	Settled                       // no vote is pending
	More                          // Next is to be called: the votes will not be what they were any more
	StoodStill                    // the timer is late by Stood, since the process has stood still
	Ask                           // nodes are asked: those for which Asked reports it
	Overdue                       // the time for answers is over: Miss for those that are pending, with what Silence says
	GiveBack                      // all nodes release what the claim has, or may yet get
	Wake                          // with GiveBack: those releases wake the next in line
	Done                          // the round is over

	// Those of a hold.
	Inform // those who rely on the lease are told that it ends, for Cause
	Extend // an extension begins, whose end is told by Extended
	Leave  // the lease has ended: nothing is due any more
)

// Has reports whether all of these are to be done.
func (e Effect) Has(all Effect) bool { return e&all == all }

// A Ballot is a vote as a round keeps it.
type Ballot struct {
	node.Stance
	fresh    bool   // the node is to be asked
	question uint32 // that it answers
	Took     time.Duration
	Err      error
	Holder   *node.Holder // nil: the node has named none
}

// A Round asks all nodes, and some of them once more if what they have answered is not enough. It begins with Begin,
// and Done is its last effect but for those of late votes. It is not safe for concurrent use.
type Round struct {
	*Config
	Kind
	Stage
	Verdict          // undecided: it is not over, or was given up
	Latest   Verdict // on the latest question; undecided also if it was given up
	Question uint32  // that was asked last
	Ballots  []Ballot
	Start    time.Time     // what Took is measured from
	Validity time.Duration // lock and extend: a quorum that comes later after Start is none; 0: no matter when
	Lead     time.Duration // of the clock at Start
	Valid    *Deadline     // extend: the end of the lock's validity, before which the quorum must come, too
	Patience time.Duration // the call's node timeout
	Token    string        // lock: of the claim
	Fencing  *Fencing      // nil: without
	Contest  *Contest      // nil until votes of the attempt have been split; goes on with its next claim

	lockLimit time.Duration // that nodes were given, when they were asked last for the lock

	// Since Start.
	asked time.Duration // when nodes were asked last
	by    time.Duration // until when answers count

	Stood time.Duration // for how long the process has stood still while the timer ran; 0: it has not
}

// Until is when the validity ends that a quorum gives.
func (r *Round) Until() Deadline { return NewDeadline(r.Start, r.Validity, r.Lead) }

func (r *Round) since(now time.Time) time.Duration { return now.Sub(r.Start) }

// Begin asks all nodes. Those that were skipped have voted.
func (r *Round) Begin(now time.Time, limit time.Duration) Effect {
	for i := range r.Ballots {
		if b := &r.Ballots[i]; b.Stance == node.Silent && b.Err == nil {
			*b = Ballot{Stance: node.Pending, Err: r.Pending, fresh: true}
		}
	}
	r.lockLimit = limit
	return Ask | r.open(now, limit)
}

// Skip presets the vote of a node that is not to be asked. Before Begin only.
func (r *Round) Skip(i int, s node.Stance) { r.Ballots[i].Stance = s }

// open judges the votes that are known already, as they may be enough, and limits the time for the others.
func (r *Round) open(now time.Time, limit time.Duration) Effect {
	r.asked = r.since(now)
	r.by, r.Stood = r.asked+limit, 0
	return r.judge(now)
}

// again asks those nodes once more of which more is wanted. Votes that are still pending count when they come: of one
// claim, a node never has two lock requests in flight, or the refusal of one could be taken for the whole truth about
// what the claim has left there. They have as much time as the others now.
func (r *Round) again(now time.Time, limit time.Duration, more func(i int, b *Ballot) bool) Effect {
	r.Question++
	r.Latest = Undecided
	for i := range r.Ballots {
		if b := &r.Ballots[i]; b.Stance != node.Pending && more(i, b) {
			*b = Ballot{Stance: node.Pending, Err: r.Pending, fresh: true, question: r.Question}
		}
	}
	return Ask | r.open(now, limit)
}

// Limit is for how long nodes have to answer that were asked last.
func (r *Round) Limit() time.Duration { return r.by - r.asked }

// IsPending reports whether votes are still out.
func (r *Round) IsPending() bool { return count(r.Ballots).pending > 0 }

// GivenUp reports whether nobody has waited for the end of the round.
func (r *Round) GivenUp() bool { return r.Stage == Over && r.Verdict == Undecided }

// Asked reports, once, whether node i is to be asked.
func (r *Round) Asked(i int) bool {
	asked := r.Ballots[i].fresh
	r.Ballots[i].fresh = false
	return asked
}

// Vote enters what node i has answered. It may change out (see weigh): callers count what it leaves there. A second
// answer, and one that comes when the time was over, changes nothing: what it has left on the node is the release's
// business, which is queued behind the request on the same connection.
func (r *Round) Vote(i int, out *node.Outcome, at time.Time) Effect {
	b := &r.Ballots[i]
	if b.Stance != node.Pending {
		return 0
	}
	if r.Fencing != nil && r.weigh(i, out) {
		return Ask
	}
	b.Stance, b.Err, b.Holder = out.Stance, out.Err, out.Holder
	b.Took = max(r.since(at), 0) // A server may answer what it has not been asked.
	return Counted | r.judge(at)
}

// Miss is the vote of a node whose time was over for the given question. If nodes were asked more meanwhile, what is
// still pending has time until that is answered.
func (r *Round) Miss(i int, question uint32, why error, now time.Time) Effect {
	if question != r.Question {
		return 0
	}
	return r.Vote(i, &node.Outcome{Err: why}, now)
}

// Due is when Tick is to be called, unless it is due already or never.
func (r *Round) Due() (at time.Duration, any bool) {
	any = count(r.Ballots).pending > 0
	at = r.by
	if (r.Stage == Gathering || r.Stage == Leading) && (!any || r.Contest.next < at) {
		return r.Contest.next, true
	}
	return at, any
}

// Tick is the timer. If it comes too early, it does nothing.
func (r *Round) Tick(now time.Time) Effect {
	due, any := r.Due()
	late := r.since(now) - due
	switch {
	case !any || late < 0:
		return 0
	case r.Stage == Gathering && due == r.Contest.next:
		return r.contend(now)
	case r.Stage == Leading && due == r.Contest.next:
		return r.gather(now)
	case late >= node.MinStandstill && r.Stood == 0:
		// What has arrived meanwhile is to be read first. It counts only if Until is still ahead; see worth.
		r.Stood, r.by = late, r.since(now)+node.Arrival
		return StoodStill
	default:
		return Overdue
	}
}

// Next goes on after a question that was decided, with a further one.
func (r *Round) Next(now time.Time) Effect {
	if r.Stage == Raising {
		return r.raise(now)
	}
	return r.contend(now)
}

// Silence is why the nodes have not voted whose time is over.
func (r *Round) Silence(now time.Time) error {
	switch {
	case r.Stood > 0:
		return node.StandstillError(r.Stood)
	case r.Validity != 0 && r.Until().Passed(r.Clock(now)):
		return r.TooLate
	default:
		return node.ErrTimeout
	}
}

// Standing is what the votes for the latest question amount to, whether the round is over or not.
func (r *Round) Standing() Verdict {
	t := count(r.Ballots)
	switch r.Kind {
	case Extending:
		return decideExtend(t, r.Need)
	case Unlocking:
		return decideUnlock(t, r.Need)
	case Releasing:
		return decideRelease(t, r.Need)
	}
	if r.IsRaising() {
		return decideRaise(t, r.Need)
	}
	return decideLock(t, r.Need)
}

// judge draws the consequences of the votes, once for each time that they have changed.
func (r *Round) judge(now time.Time) (e Effect) {
	t := count(r.Ballots)
	switch {
	case r.Stage == Over:
	case t.yes >= r.Need || r.Stage < Gathering:
		if v := r.worth(r.Standing(), now); v != Undecided {
			e = r.decide(v, now)
		}
	case r.Stage == Gathering && t.pending == 0:
		e = More
	}
	if t.pending == 0 && !e.Has(Raised) { // Until nodes have raised their counters, it is no lock.
		e |= Settled
	}
	return e
}

// worth is what a verdict is worth that has been reached now.
func (r *Round) worth(v Verdict, now time.Time) Verdict {
	if v == Undecided && r.Kind == Locking && !r.IsRaising() {
		return r.withoutSlow(now)
	}
	if v != Granted || r.Validity == 0 {
		return v
	}
	switch at, lead := r.Clock(now); {
	case r.Valid != nil && r.Valid.Passed(at, lead):
		return Expired
	case r.Until().Passed(at, lead):
		return NoQuorum
	default:
		return Granted
	}
}

// decide ends the question, and the round if there is no further one.
func (r *Round) decide(v Verdict, now time.Time) Effect {
	r.Latest = v
	switch {
	case r.Kind != Locking:
		return Decided | r.end(v)
	case r.Fencing != nil && (v == Granted || r.Stage == Raising):
		return r.decideFence(v, now)
	case v == Granted:
		return Decided | r.end(Granted)
	case v == Taken && r.isSplit():
		return Decided | r.split(now)
	case v == NoQuorum && r.Contest != nil && !now.Before(r.Contest.until):
		// The time for the split was over, not that of the nodes. The votes that were split tell more.
		r.Contest.tells = true
		return Decided | r.fail(Taken, now)
	default:
		return Decided | r.fail(v, now)
	}
}

func (r *Round) end(v Verdict) Effect {
	r.Stage, r.Verdict = Over, v
	return Done
}

// fail gives back what the claim has. Only a claim that has used up its nodes' time, or has outlived its validity, wakes
// the next in line, as an Unlock does: who was told of a release while this claim had the key has been refused because
// of it, and nobody else would wake that one. If each one that fails in a contest did, each would set off the next.
func (r *Round) fail(v Verdict, now time.Time) Effect {
	e := r.end(v) | GiveBack
	if v == NoQuorum && (r.since(now) >= r.lockLimit || r.Until().Passed(r.Clock(now))) {
		e |= Wake
	}
	return e
}

// GiveUp is called when nobody waits for the round any more.
func (r *Round) GiveUp() (e Effect) {
	if r.Stage == Over {
		return 0
	}
	won := r.Stage == Raising
	if r.Stage <= Raising {
		e = Decided
	}
	if r.Kind == Locking {
		e |= GiveBack | Wake
	}
	if won {
		r.Contest = nil // It was won.
	} else if r.Contest != nil && count(r.Ballots).no == 0 {
		r.Contest.tells = true // Who was asked again has not answered yet, which does not say what the contest was about.
	}
	return e | r.end(Undecided)
}

// Amounts is what the votes of an attempt that was given up amount to: one refusal is a sign that the lock is taken;
// without one, silence is all that was seen.
func (r *Round) Amounts() Verdict {
	if r.Contest != nil || count(r.Ballots).no > 0 {
		return Taken
	}
	return NoQuorum
}

// Take is called by whom an attempt has got the lock for, which may be a while after. What then ends within atLeast is
// of no use.
func (r *Round) Take(now time.Time, atLeast time.Duration) Effect {
	if r.Verdict != Granted || r.Until().Remaining(r.Clock(now)) > atLeast {
		return 0
	}
	return r.fail(NoQuorum, now)&^Done | Wake // It had the lock: others were refused because of it.
}
