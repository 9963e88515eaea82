package simulation

import (
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/test/testkit"
)

const (
	// simRecovery is the time after the last fault within which everything that
	// was left behind must be gone: the longest silence after which a connection
	// counts as broken, the backoff, and the longest delay of late bytes.
	simRecovery = 8 * time.Second

	// simMaxLate is the longest delay of late bytes.
	simMaxLate = 3 * time.Second

	simMaxTTL = time.Minute
)

// recover checks, after the last fault, that everything works again and nothing is left.
// Nodes have no delays then.
func (s *sim) recover() {
	s.tracef("all faults have ended")
	ended := time.Now()
	// Within 3 s with the usual timeouts: what takes longest is to notice that a
	// connection is dead, then the longest backoff.
	time.Sleep(node.Silence(max(100*time.Millisecond, s.longestTimeout())) + 2*time.Second)
	for _, c := range s.open() {
		c.checkAlive()
	}
	time.Sleep(time.Until(ended.Add(simRecovery)))
	synctest.Wait()
	s.checkLeftovers()
	for _, c := range s.open() {
		c.checkStats()
	}
}

// checkAlive checks that a client can lock on all nodes, in no time.
func (c *simClient) checkAlive() {
	s, start := c.s, time.Now()
	res := "fresh-" + c.name
	lock, err := c.r.TryLock(s.t.Context(), []string{res}, time.Minute)
	if err != nil {
		s.failf("(6) %s cannot lock after the faults: %v", c.name, err)
		return
	}
	l := c.acquired(lock, res, start, simAsk{ttl: time.Minute})
	synctest.Wait()
	for _, n := range s.nodes {
		if why := n.lacks(l, l.Until()); why != "" {
			s.failf("(6) %s cannot lock on %s after the faults: %s; %+v", c.name, n.Name(), why, c.r.Stats().Nodes)
		}
	}
	l.noteRelease()
	if err := l.Unlock(s.t.Context()); err != nil {
		s.failf("(6) %s cannot unlock after the faults: %v", c.name, err)
	}
	synctest.Wait()
	for _, n := range s.nodes {
		if n.hasAny(l) {
			s.failf("(5) %s cannot unlock on %s after the faults", c.name, n.Name())
		}
	}
	if took := time.Since(start); took > 0 {
		s.failf("(6) %s needed %v for a lock after the faults", c.name, took)
	}
}

// checkLeftovers checks (5), when no call is running. What may be left is a lock that was
// not released, and what a client could not clean up because it was closed while nodes
// did not answer: Close waits for them no longer than the node timeout.
func (s *sim) checkLeftovers() {
	for i, n := range s.nodes {
		for key, state := range n.lockKeys() {
			s.mu.Lock()
			c, l := s.owners[state.Value], s.byToken[state.Value]
			closing, rough, calm := time.Time{}, false, false
			if c != nil && !c.closing.IsZero() {
				closing, rough, calm = c.closing, c.rough, c.calm[i]
			}
			s.mu.Unlock()
			what := fmt.Sprintf("(5) %s has %q = %.6s for %v", n.Name(), key, state.Value, state.TTL)
			switch {
			case state.Value == simThief:
			case c == nil:
				s.failf("%s, which nobody has set", what)
			case state.TTL < 0 || state.TTL > simMaxTTL:
				s.failf("%s", what)
			case l != nil && l.releasedAt().IsZero(): // Abandoned.
			case n.mayHave(state.Value): // For one ttl; checkNothingStays sees the end of it.
			case !closing.IsZero() && (rough || !calm):
			case l != nil && !closing.IsZero() && !l.releasedAt().Before(closing): // Too late.
			case l == nil:
				s.failf("%s of an attempt of %s that failed (closed: %v)", what, c.name, !closing.IsZero())
			case n.mayKeep(l):
			default:
				s.failf("%s of %s, which was released at %v (closed: %v)", what, l.name, s.offset(l.releasedAt()), !closing.IsZero())
			}
		}
	}
}

// checkExpired checks (5) at a time when all locks have ended.
func (s *sim) checkExpired() {
	for _, n := range s.nodes {
		if left := n.lockKeys(); len(left) > 0 {
			s.failf("(5) keys on %s that should have expired: %v", n.Name(), left)
		}
	}
}

// checkNothingStays checks that all that is stored expires, the library's own
// keys included, and that idle connections stay up.
func (s *sim) checkNothingStays() {
	time.Sleep(s.longest(2*simMaxTTL + time.Second))
	for _, n := range s.nodes {
		left, err := n.Keys()
		s.must(err)
		for key := range left {
			if strings.Contains(key, testkit.Reserved+fences.Mark) { // It has a life of its own.
				delete(left, key)
			}
		}
		if len(left) > 0 {
			s.failf("(5) %s still has %v", n.Name(), left)
		}
	}
	for _, c := range s.open() {
		c.checkStats()
		c.checkAlive()
	}
}
