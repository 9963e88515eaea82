package redlock

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/tokens"
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

// A split is the resolution of one attempt's split vote.
type split struct {
	c      *candidate    // that contends now
	until  time.Time     // no node is asked after this
	votes  []Vote        // the latest ones that were split
	pace   time.Duration // about a round trip
	asked  int           // how often it led and asked again
	paused int           // how often it gave way
	rival  string        // who had the most votes when it last gave way or asked again
	seen   int           // how often in a row
	stuck  bool          // that one does not seem to contend
	end    time.Time     // of the attempt at the latest: two node timeouts after its start

	counted bool // in Stats
}

// newSplit begins with the candidate whose votes are split.
func newSplit(c *candidate) *split {
	pace := max(time.Since(c.start), minPace)
	s := &split{c: c, pace: pace, end: c.start.Add(2 * c.o.nodeTimeout)}
	s.until = time.Now().Add(splitLimit(c.o.nodeTimeout, pace))
	c.split = s
	return s
}

// splitLimit is how long a split vote may take to be resolved, where a round trip takes pace:
// eight of them, or 100 ms if that is more, within the node timeout.
func splitLimit(nodeTimeout, pace time.Duration) time.Duration {
	return min(nodeTimeout, max(100*time.Millisecond, 8*pace))
}

const (
	minPace = 200 * time.Microsecond
	maxSeen = 3 // see watch
	// enough is for how long nobody pauses for more, unless round trips are so long that less would
	// be too little: see pause.
	enough = 20 * time.Millisecond
)

// resolve has the attempt's candidates contend, one after the other, until there is a winner or no time is left.
func (s *split) resolve() (*Lock, error) {
	for {
		l, err := s.contend()
		if !errors.Is(err, errSplit) {
			return l, err
		}
		// Somebody else leads: what this candidate has won was given back. Before the next
		// look, the leader gets the time of a round trip or two.
		c := s.c
		if ended := c.r.calls.Sleep(c.ctx, s.pause()); ended != nil {
			return nil, c.endedBy(ended, c.round.quorumError(ErrTaken))
		}
		if s.over() {
			return nil, c.round.fail(ErrTaken)
		}
		s.c = c.newCandidate(c.ctx, c.num, c.turn)
		s.c.split = s
		if l, err = s.c.lock(); !errors.Is(err, errSplit) {
			return l, err
		}
	}
}

// contend takes the candidate, whose votes are split, as far as it goes. It returns errSplit, with the claim
// released, if another candidate leads and there is time to look again.
func (s *split) contend() (*Lock, error) {
	c := s.c
	for {
		s.votes = s.gather()
		mine, rival, most := countVotes(s.votes)
		s.watch(rival)
		ended := c.r.calls.Ended(c.ctx)
		switch {
		case most >= c.r.need, ended == nil && (s.over() || mine == 0):
			// Somebody has it, or nobody gets it in time. Or it keeps nothing from anybody, so asking again
			// would only disturb those who have the votes, or several have held the resources for long.
			return nil, c.fail(ErrTaken)
		case ended != nil:
			return nil, c.cut(ended, ErrTaken)
		}
		if !s.counted { // Only now: of an even number of nodes, too few to name a holder decide.
			s.counted = true
			c.r.counters.Splits.Add(1)
		}
		if mine < most || mine == most && tokens.Digest(c.claim.token()) >= rival { // Of equals the smallest digest leads.
			c.release(false)
			return nil, errSplit
		}
		c.askRefused()
		if l, err := c.outcome(); !errors.Is(err, errSplit) {
			return l, err
		}
		// The others have not given way yet: their releases may be on the way. If
		// sleep is cut short, the next look at the context ends this.
		_ = c.r.calls.Sleep(c.ctx, s.again())
	}
}

// watch notes who else has the most votes. A candidate wins, or gives its votes back. One that stays may be nobody who
// contends: a holder that has most of its votes on slow nodes, or what a lost one has left. Then there is nothing to
// settle without the slow nodes: their votes are waited for, as long as an attempt may take.
func (s *split) watch(rival string) {
	if rival != s.rival {
		s.rival, s.seen = rival, 0
	}
	isOut := func(v Vote) bool { return v.stance == node.Pending }
	if s.seen++; s.seen > maxSeen && slices.ContainsFunc(s.votes, isOut) {
		s.stuck, s.until = true, s.end
	}
}

// over reports whether there is no time left for another round trip.
func (s *split) over() bool { return !time.Now().Add(s.pace).Before(s.until) }

// gather waits for the votes that are still out, since a tally that lacks them
// may show another leader than the one the others see. It does not wait for
// silent nodes: at most as long again as the round has taken so far, unless there is nothing to settle without them.
func (s *split) gather() []Vote {
	wait := max(2*s.pace, 5*minPace)
	if s.stuck {
		wait = time.Until(s.until)
	}
	select {
	case <-s.c.round.allVoted():
	case <-time.After(min(wait, time.Until(s.until))):
	case <-s.c.ctx.Done():
	case <-s.c.r.calls.Closing:
	}
	return s.c.round.copyVotes()
}

// again is how long the leader waits before it asks again: the others' releases are on the way, so about a round
// trip, random and growing a little, so that a vote that stays split costs the nodes little.
func (s *split) again() time.Duration {
	s.asked++
	return s.atMost(s.pace / 4 * time.Duration(3+s.asked))
}

// pause is how long one that gave its votes back stays away: longer than the leader takes, as a candidate that comes
// back too early takes away the very votes that were given back. It doubles every time. (With 20 ms at most, two
// callers whose round trip to two nodes is 25 ms hindered each other until neither had time left.)
func (s *split) pause() time.Duration {
	d := s.pace << min(2+s.paused, 10)
	s.paused++
	return s.atMost(d)
}

// atMost is a random time around d, within what is left.
func (s *split) atMost(d time.Duration) time.Duration {
	d = min(d, max(enough, 4*s.pace))
	return max(0, min(d/2+rand.N(d+1), time.Until(s.until)))
}

// countVotes returns how many votes this candidate has, which other token was seen on the most nodes, of equals the
// smallest digest, and on how many.
func countVotes(votes []Vote) (mine int, rival string, most int) {
	others := make(map[string]int, len(votes))
	for _, v := range votes {
		switch v.stance {
		case node.Yes:
			mine++
		case node.No:
			others[v.Holder]++
			if n := others[v.Holder]; n > most || n == most && v.Holder < rival {
				rival, most = v.Holder, n
			}
		}
	}
	return mine, rival, most
}
