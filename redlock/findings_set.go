package redlock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// What shows only when nodes are compared.

const (
	// maxClockApart and maxClientApart are how far apart clocks may be, beyond what the
	// round trips leave open. Clocks that are synchronised differ by milliseconds.
	// A constant difference does no harm to exclusion; but a clock that nobody has
	// set may be stepped by whoever notices, and that does. With fencing nodes ignore
	// proposals of a client more than one second ahead of them.
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

// clockFindings compares the clocks of the nodes and this client's. Wrong is a clock
// that differs from most others: so one that is wrong does not put the blame on
// those that are right.
func clockFindings(nodes []facts) (of []Finding, client *Finding) {
	read, differ := 0, 0 // Nodes, and those that differ from the client.
	for i := range nodes {
		if c, ok := nodes[i].clock(); ok {
			read++
			if c.apart(clock{}, maxClientApart) {
				differ++
			}
		}
	}
	of = make([]Finding, len(nodes))
	for i := range nodes {
		of[i] = clockFinding(nodes, i)
		of[i].Node, of[i].Check = nodes[i].node, "clock"
	}
	if read > 1 && 2*differ > read {
		found := amiss(VerdictWarning, fmt.Sprintf("this client's clock is more than %v off those of %d of %d nodes", maxClientApart, differ, read),
			"Synchronise the clock of this machine (NTP)")
		found.Check = "clock"
		client = &found
	}
	return of, client
}

// clockFinding compares one node's clock with the others' and the client's.
func clockFinding(nodes []facts, i int) Finding {
	mine, ok := nodes[i].clock()
	if !ok {
		err := nodes[i].timeErr
		if err == nil {
			err = errors.New("TIME was not answered")
		}
		return unknown(err, "Grant the right +time, or look at the clock by other means")
	}
	others, differ := 1, 0
	if mine.apart(clock{}, maxClientApart) {
		differ++
	}
	for j := range nodes {
		if theirs, ok := nodes[j].clock(); ok && j != i {
			others++
			if mine.apart(theirs, maxClockApart) {
				differ++
			}
		}
	}
	where := fmt.Sprintf("its clock is %s %s this client's, give or take %s", brief(mine.offset.Abs()), aheadOf(mine.offset), brief(mine.bound))
	if 2*differ <= others {
		return fine("%s", where)
	}
	return amiss(VerdictWarning, fmt.Sprintf("%s, and differs from %d of %d other clocks", where, differ, others),
		"Synchronise the clock of its machine (NTP, slewing rather than stepping), while no locks are held")
}

func aheadOf(d time.Duration) string {
	if d < 0 {
		return "behind"
	}
	return "ahead of"
}

// sameServer finds another node that is the same server process.
func sameServer(nodes []facts, i int) Finding {
	found := theSameServer(nodes, i)
	found.Node, found.Check = nodes[i].node, "same-server"
	return found
}

func theSameServer(nodes []facts, i int) Finding {
	f := &nodes[i]
	id := f.info["run_id"]
	if id == "" {
		return f.unread("run_id")
	}
	var same, other, unsure []string // databases of this server
	for j := range nodes {
		g := &nodes[j]
		switch {
		case j == i || g.info["run_id"] != id:
		case f.database == "" || g.database == "":
			unsure = append(unsure, g.node)
		case f.database == g.database:
			same = append(same, g.node)
		default:
			other = append(other, g.node)
		}
	}
	text := "it is "
	switch {
	case len(same) > 0:
		text += "the same server as " + strings.Join(same, " and ")
	case len(other) > 0:
		text += "another database of the same server as " + strings.Join(other, " and ")
	case len(unsure) > 0:
		text += "the same server as " + strings.Join(unsure, " and ") + ", or another database of it"
	default:
		return fine("no other node is the same server")
	}
	return amiss(VerdictUnfit, text+", and votes more than once", "Give each server once, and one that fails independently instead")
}

func nodeCount(n int) Finding {
	const advice = "Use three or five nodes that fail independently"
	text := ""
	switch {
	case n == 1:
		text = "one node is no quorum to speak of: nothing works without it"
	case n%2 == 0:
		text = fmt.Sprintf("%d nodes tolerate no more failures than %d", n, n-1)
	}
	found := fine("%d nodes, of which %d may fail", n, n-quorum(n))
	if text != "" {
		found = amiss(VerdictWarning, text, advice)
	}
	found.Check = "node-count"
	return found
}

// sameVersions compares products and major versions.
func sameVersions(nodes []facts) Finding {
	var kinds []string
	for i := range nodes {
		name, version := nodes[i].product()
		if version == "" {
			continue
		}
		digits, _, _ := strings.Cut(version, ".")
		if kind := name + " " + digits; !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	var found Finding
	switch {
	case len(kinds) == 0:
		found = unknown(errors.New("no node tells its version"), "Look at the versions by other means")
	case len(kinds) == 1:
		found = fine("those that tell it are all %s", kinds[0])
	default:
		found = amiss(VerdictWarning, "there are "+strings.Join(kinds, ", "), "Run one version on all nodes, but for the time of an upgrade")
	}
	found.Check = "versions"
	return found
}
