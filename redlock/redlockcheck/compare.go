package redlockcheck

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/redlock"
)

// Findings that only a comparison of nodes shows.

func (s *survey) nodeCount() Finding {
	const advice = "Use three or five nodes that fail independently"
	switch n := len(s.nodes); {
	case n == 1:
		return amiss(Warning, advice, "one node is no quorum to speak of: nothing works without it")
	case n%2 == 0:
		return amiss(Warning, advice, "%d nodes tolerate no more failures than %d", n, n-1)
	default:
		return fine("%d nodes, of which %d may fail", n, n/2)
	}
}

// setDifferences finds clients that use these nodes now, and others as well. sameServer finds two nodes that are one
// server.
func (s *survey) setDifferences() (found []Finding) {
	names, answers := make([]string, len(s.nodes)), make([]string, len(s.nodes))
	for i := range s.nodes {
		names[i], answers[i] = s.nodes[i].node, s.nodes[i].sets
	}
	for _, d := range settings.SetDifferences(s.SetName, names, answers).([]redlock.SetDifference) {
		switch {
		case len(d.Twice) > 0:
		case d.QuorumsMeet:
			found = append(found, amiss(Warning, "If the set is being changed, go on; if not, compare the lists of nodes", "%v", d))
		default:
			found = append(found, amiss(Unfit, "Give all clients the same nodes", "%v", d))
		}
	}
	return found
}

// sameServer finds another node that is the same server process.
func (s *survey) sameServer(f *facts) Finding {
	id := f.info["run_id"]
	if id == "" {
		return f.unread("run_id")
	}
	var same, other, unsure []string // databases of this server
	for i := range s.nodes {
		g := &s.nodes[i]
		switch {
		case g == f || g.info["run_id"] != id:
		case f.database == "" || g.database == "":
			unsure = append(unsure, g.node)
		case f.database == g.database:
			same = append(same, g.node)
		default:
			other = append(other, g.node)
		}
	}
	is := ""
	switch {
	case len(same) > 0:
		is = "the same server as " + strings.Join(same, " and ")
	case len(other) > 0:
		is = "another database of the same server as " + strings.Join(other, " and ")
	case len(unsure) > 0:
		is = "the same server as " + strings.Join(unsure, " and ") + ", or another database of it"
	default:
		return fine("no other node is the same server")
	}
	return amiss(Unfit, "Give each server once, and one that fails independently instead", "it is %s, and votes more than once", is)
}

// Clocks are compared with the median of all that could be read, this client's included: a wrong one then does not put
// the blame on the right ones.

const (
	// maxClockApart and maxClientApart are how far from the median a node's clock and the client's may be, beyond the
	// uncertainty of the round trips. Synchronised clocks differ by milliseconds. A constant difference does not harm
	// exclusion. But a clock that nobody has set may be stepped when somebody notices, and a step does. With fencing,
	// nodes ignore proposals of a client more than one second ahead of them.
	maxClockApart  = 500 * time.Millisecond
	maxClientApart = time.Second
)

// A clock is a clock that was read from here: it is ahead of ours by offset ± bound.
type clock struct{ offset, bound time.Duration }

// apart reports whether two clocks certainly differ by more than limit.
func (c clock) apart(d clock, limit time.Duration) bool {
	return (c.offset-d.offset).Abs()-c.bound-d.bound > limit
}

// than returns how far c is ahead of d, or behind it, as text.
func (c clock) than(d clock) string {
	if c.offset < d.offset {
		return brief.Duration(d.offset-c.offset) + " behind"
	}
	return brief.Duration(c.offset-d.offset) + " ahead of"
}

func (f *facts) clock() (clock, bool) {
	return clock{f.offset, f.rtt / 2}, f.down == nil && f.timeErr == nil && f.rtt > 0
}

// medianClock returns the middle one of all clocks, or the mean of the two in the middle.
func (s *survey) medianClock() clock {
	clocks := []clock{{}} // The client's.
	for i := range s.nodes {
		if c, ok := s.nodes[i].clock(); ok {
			clocks = append(clocks, c)
		}
	}
	slices.SortFunc(clocks, func(a, b clock) int { return cmp.Compare(a.offset, b.offset) })
	a, b := clocks[(len(clocks)-1)/2], clocks[len(clocks)/2]
	return clock{a.offset + (b.offset-a.offset)/2, max(a.bound, b.bound)}
}

// clock compares one node's clock with the client's and the median.
func (s *survey) clock(f *facts) Finding {
	mine, ok := f.clock()
	if !ok {
		why := cmp.Or(f.timeErr, errors.New("TIME was not answered"))
		return unknown(why, remedy("time", why, "look at the clock by other means"))
	}
	median := s.medianClock()
	found := fine("its clock is %s this client's and %s the median of all, give or take %s",
		mine.than(clock{}), mine.than(median), brief.Duration(mine.bound))
	if mine.apart(median, maxClockApart) {
		found.Verdict = Warning
		found.Advice = "Synchronise the clock of its machine (NTP, slewing rather than stepping), while no locks are held"
	}
	return found
}

// clientClock finds out whether this client's clock is off.
func (s *survey) clientClock() Finding {
	median := s.medianClock()
	if !median.apart(clock{}, maxClientApart) {
		return Finding{}
	}
	return amiss(Warning, "Synchronise the clock of this machine (NTP)",
		"this client's clock is %s the median of all", clock{}.than(median))
}
