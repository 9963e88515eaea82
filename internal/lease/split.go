package lease

import (
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// When several clients ask for a resource at the same time and their requests reach the nodes in different orders,
// each may get some votes and none a quorum. Plain Redlock then has no winner: with delays of 0 to 2 ms in about a
// fifth of the rounds of 3 clients on 3 nodes, in about 70 % of 5 on 5. All would retry, a retry delay later, and
// might collide again.
//
// But a refusal names the holder's digest, so every contender sees nearly the same tally. The one that leads it keeps
// its votes and asks the nodes that refused it again, while the others give theirs back. That takes about one round
// trip more.
//
// Safety does not hang on any of this. A lock is still only a quorum within its validity; contenders that see
// different tallies fall back to giving back and waiting for a random time. Where the round trip to a node that is
// needed is a good part of the node timeout, there may be no time to find a winner.

// A Contest is the resolution of one attempt's split vote, by one claim after the other.
type Contest struct {
	until  time.Time     // no node is asked after this
	end    time.Time     // of the attempt at the latest: two node timeouts after its start
	pace   time.Duration // about a round trip
	votes  []Ballot      // the latest ones that were split
	asked  int           // how often it led and asked again
	paused int           // how often it gave way
	rival  string        // who had the most votes when it last gave way or asked again
	seen   int           // how often in a row
	stuck  bool          // that one does not seem to contend
	told   bool          // that votes are split
	tells  bool          // its votes tell better why the attempt has failed than those of the last question
	next   time.Duration // of a claim that gathers votes or leads, since its start: when that is over

	Rest time.Duration // of a claim that is behind: before the next one
}

// Telling returns the votes that explain best why the round has failed.
func (r *Round) Telling() []Ballot {
	if r.Contest != nil && r.Contest.tells {
		return r.Contest.votes
	}
	return r.Ballots
}

const (
	minPace = 200 * time.Microsecond
	maxSeen = 3 // see watch
	// enough is for how long nobody pauses for more, unless round trips are so long that less would
	// be too little: see pause.
	enough = 20 * time.Millisecond
)

// SplitLimit is how long a split vote may take to be resolved, where a round trip takes pace:
// eight of them, or 100 ms if that is more, within the node timeout.
func SplitLimit(nodeTimeout, pace time.Duration) time.Duration {
	return min(nodeTimeout, max(100*time.Millisecond, 8*pace))
}

// isSplit reports whether no token is known to have a quorum, and no node has refused because of a reservation:
// to contend for a reserved resource would be to take it from the waiter that is next.
func (r *Round) isSplit() bool {
	_, _, most := standing(r.Ballots)
	return most < r.Need && !slices.ContainsFunc(r.Ballots, func(b Ballot) bool {
		return b.Err == r.Reserved //nolint:errorlint // Not what wraps it.
	})
}

// split begins a contest, or goes on with it: one that has led and asked again gives the others time for their
// releases, about a round trip, random and growing a little, so that a vote that stays split costs the nodes little.
func (r *Round) split(now time.Time) Effect {
	c := r.Contest
	if c == nil {
		pace := max(r.since(now), minPace)
		c = &Contest{pace: pace, until: now.Add(SplitLimit(r.Patience, pace)), end: r.Start.Add(2 * r.Patience)}
		r.Contest = c
	}
	if r.Question == 0 {
		return r.gather(now)
	}
	c.asked++
	r.Stage, c.next = Leading, r.since(now)+r.wait(c.pace/4*time.Duration(3+c.asked), now)
	return 0
}

// gather waits for the votes that are still out, since a tally that lacks them
// may show another leader than the one the others see. It does not wait for
// silent nodes: at most as long again as the round has taken so far, unless there is nothing to settle without them.
func (r *Round) gather(now time.Time) Effect {
	c := r.Contest
	wait, left := max(2*c.pace, 5*minPace), c.until.Sub(now)
	if c.stuck {
		wait = left
	}
	r.Stage, c.next = Gathering, r.since(now)+min(wait, left)
	if r.IsPending() {
		return 0
	}
	return More
}

// contend takes a claim whose votes are split further.
func (r *Round) contend(now time.Time) (e Effect) {
	c := r.Contest
	c.votes = slices.Clone(r.Ballots)
	mine, rival, most := standing(c.votes)
	c.watch(rival)
	if most >= r.Need || c.IsOver(now) || mine == 0 {
		// Somebody has it, or nobody gets it in time. Or it keeps nothing from anybody, so asking again
		// would only disturb those who have the votes, or several have held the resources for long.
		return r.fail(Taken, now)
	}
	if !c.told { // Only now: of an even number of nodes, too few to name a holder decide.
		c.told = true
		e = Split
	}
	if mine < most || mine == most && r.Digest(r.Token) >= rival { // Of equals the smallest digest leads.
		c.Rest = r.pause(now)
		return e | r.end(Behind) | GiveBack
	}
	r.Stage, r.lockLimit = Asking, r.AnswersIn(now)
	return e | r.again(now, r.lockLimit, func(_ int, b *Ballot) bool { return b.Stance == node.No || b.Stance == node.Gone })
}

// AnswersIn is what the nodes get to answer a request for the lock: a vote that comes after Until is none.
func (r *Round) AnswersIn(now time.Time) time.Duration {
	limit := min(r.Patience, r.Until().Mono.Sub(now))
	if r.Contest != nil {
		limit = min(limit, r.Contest.until.Sub(now))
	}
	return limit
}

// watch notes who else has the most votes. A claim wins, or gives its votes back. One that stays may be nobody who
// contends: a holder that has most of its votes on slow nodes, or what a lost one has left. Then there is nothing to
// settle without the slow nodes: their votes are waited for, as long as an attempt may take.
func (c *Contest) watch(rival string) {
	if rival != c.rival {
		c.rival, c.seen = rival, 0
	}
	if c.seen++; c.seen > maxSeen && count(c.votes).pending > 0 {
		c.stuck, c.until = true, c.end
	}
}

// IsOver reports whether there is no time left for another round trip.
func (c *Contest) IsOver(now time.Time) bool { return !now.Add(c.pace).Before(c.until) }

// pause is how long one that gave its votes back stays away: longer than the leader takes, as a candidate that comes
// back too early takes away the very votes that were given back. It doubles every time. (With 20 ms at most, two
// callers whose round trip to two nodes is 25 ms hindered each other until neither had time left.)
func (r *Round) pause(now time.Time) time.Duration {
	d := r.Contest.pace << min(2+r.Contest.paused, 10)
	r.Contest.paused++
	return r.wait(d, now)
}

// wait is a random time around d, within what is left of the contest.
func (r *Round) wait(d time.Duration, now time.Time) time.Duration {
	d = min(d, max(enough, 4*r.Contest.pace))
	return max(0, min(d/2+r.Random(d+1), r.Contest.until.Sub(now)))
}

// standing returns how many votes this claim has, which other token was seen on the most nodes, of equals the
// smallest digest, and on how many.
func standing(votes []Ballot) (mine int, rival string, most int) {
	others := make(map[string]int, len(votes))
	for _, v := range votes {
		switch v.Stance {
		case node.Yes:
			mine++
		case node.No:
			holder := ""
			if v.Holder != nil {
				holder = v.Holder.Digest
			}
			others[holder]++
			if n := others[holder]; n > most || n == most && holder < rival {
				rival, most = holder, n
			}
		}
	}
	return mine, rival, most
}
