package fitness

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
)

// Clocks are compared with the median of all that could be read, this client's included:
// one that is wrong does not put the blame on those that are right.

const (
	// maxClockApart and maxClientApart are how far from the median a node's clock and the
	// client's may be, beyond what the round trips leave open. Clocks that are synchronised
	// differ by milliseconds. A constant difference does no harm to exclusion; but a clock
	// that nobody has set may be stepped by whoever notices, and that does. With fencing
	// nodes ignore proposals of a client more than one second ahead of them.
	maxClockApart  = 500 * time.Millisecond
	maxClientApart = time.Second
)

// A clock is one that was read from here.
type clock struct {
	offset, bound time.Duration // it is ahead of ours by offset ± bound
}

// apart reports whether two clocks differ by more than limit for certain.
func (c clock) apart(d clock, limit time.Duration) bool {
	return (c.offset-d.offset).Abs()-c.bound-d.bound > limit
}

func (f *facts) clock() (clock, bool) {
	return clock{f.offset, f.rtt / 2}, f.down == nil && f.timeErr == nil && f.rtt > 0
}

// medianClock is the middle one of these, or between the two in the middle.
func medianClock(clocks []clock) clock {
	slices.SortFunc(clocks, func(a, b clock) int { return cmp.Compare(a.offset, b.offset) })
	a, b := clocks[(len(clocks)-1)/2], clocks[len(clocks)/2]
	return clock{a.offset + (b.offset-a.offset)/2, max(a.bound, b.bound)}
}

// clockFindings compares the clocks of the nodes and this client's.
func clockFindings(nodes []facts) (of []Finding, client *Finding) {
	clocks := []clock{{}} // The client's.
	for i := range nodes {
		if c, ok := nodes[i].clock(); ok {
			clocks = append(clocks, c)
		}
	}
	median := medianClock(clocks)
	for i := range nodes {
		found := clockFinding(&nodes[i], median)
		found.Node, found.Check = nodes[i].node, "clock"
		of = append(of, found)
	}
	if median.apart(clock{}, maxClientApart) {
		found := amiss(Warning, "this client's clock is "+off(clock{}, median)+" the median of all", "Synchronise the clock of this machine (NTP)")
		found.Check = "clock"
		client = &found
	}
	return of, client
}

// clockFinding compares one node's clock with the client's and the median.
func clockFinding(f *facts, median clock) Finding {
	mine, ok := f.clock()
	if !ok {
		err := f.timeErr
		if err == nil {
			err = errors.New("TIME was not answered")
		}
		return unknown(err, "Grant the right +time, or look at the clock by other means")
	}
	text := fmt.Sprintf("its clock is %s this client's and %s the median of all, give or take %s",
		off(mine, clock{}), off(mine, median), brief.Duration(mine.bound))
	if !mine.apart(median, maxClockApart) {
		return fine("%s", text)
	}
	return amiss(Warning, text, "Synchronise the clock of its machine (NTP, slewing rather than stepping), while no locks are held")
}

// off says how far c is ahead of d, or behind it.
func off(c, d clock) string {
	if c.offset < d.offset {
		return brief.Duration(d.offset-c.offset) + " behind"
	}
	return brief.Duration(c.offset-d.offset) + " ahead of"
}
