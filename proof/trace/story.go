package trace

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// A Story is what the steps of several nodes come to: which attempts got a lock, how each has ended, and what is wrong.
type Story struct {
	Nodes int
	// Tell is called with what is wrong, when it is known.
	Tell func(at int64, what string)

	Locks, Failed, Expired, Orphans, Odd int

	claims map[[2]string]*claim
}

// A claim is what became of one token on one key.
type claim struct {
	has      map[int]bool // The nodes that have it, or may.
	most     int          // How many did at a time.
	released int64        // When the first node deleted it, 0: none has.
	left     bool         // It was left to end, with min hold.
	expired  map[int]int64
}

// tidied is how long a key may stay on one node when another one has deleted it.
const tidied = int64(time.Second)

// Add takes the next step.
func (s *Story) Add(e history.Event) {
	if s.claims == nil {
		s.claims = make(map[[2]string]*claim)
	}
	node := *e.Node
	switch e.Op {
	case history.StepOdd:
		s.Odd++
		s.Tell(e.At, fmt.Sprintf("node %d, key %s: %s", node, e.Resources[0], e.Detail))
	case history.StepGap, history.StepWiped: // What it had is not known, and is not told as expired.
		for _, of := range slices.Collect(maps.Keys(s.claims)) {
			s.end(e, of, node, false)
		}
	case history.StepFound, history.StepGrant, history.StepExtend:
		s.others(e, node)
		if e.Holder != "" {
			s.has(e, node)
		}
	case history.StepShorten:
		if c := s.claims[[2]string{e.Resources[0], e.Holder}]; c != nil {
			c.left = true
		}
	case history.StepRelease, history.StepExpire:
		s.end(e, [2]string{e.Resources[0], e.Holder}, node, e.Op == history.StepExpire)
	}
}

func (s *Story) has(e history.Event, node int) {
	of := [2]string{e.Resources[0], e.Holder}
	c := s.claims[of]
	if c == nil {
		c = &claim{has: make(map[int]bool), expired: make(map[int]int64)}
		s.claims[of] = c
	}
	c.has[node] = true
	if c.most = max(c.most, len(c.has)); c.most == s.quorum() && len(c.has) == c.most && e.Op == history.StepGrant {
		s.Locks++
	}
}

func (s *Story) quorum() int { return s.Nodes/2 + 1 }

// others ends the claims of others on a node's key: what became of them was not seen.
func (s *Story) others(e history.Event, node int) {
	for of, c := range s.claims {
		if of[0] == e.Resources[0] && of[1] != e.Holder && c.has[node] {
			s.end(e, of, node, false)
		}
	}
}

// end is that of a claim on one node, and says what is wrong when it is the last one.
func (s *Story) end(e history.Event, of [2]string, node int, expired bool) {
	c := s.claims[of]
	if c == nil || !c.has[node] {
		return
	}
	delete(c.has, node)
	switch {
	case expired:
		c.expired[node] = e.At
	case e.Op == history.StepRelease && c.released == 0:
		c.released = e.At
	}
	if len(c.has) > 0 {
		return
	}
	delete(s.claims, of)
	name := fmt.Sprintf("key %s of %s%s", of[0], of[1], owned(e))
	if c.most < s.quorum() {
		s.Failed++
	}
	switch {
	case c.left:
		return
	case c.most >= s.quorum() && c.released == 0 && len(c.expired) > 0:
		s.Expired++
		s.Tell(e.At, name+": a lock that a quorum had has expired, and nobody released it")
		return
	}
	for _, n := range slices.Sorted(maps.Keys(c.expired)) {
		at := c.expired[n]
		switch {
		case c.released == 0:
			s.Orphans++
			s.Tell(at, fmt.Sprintf("%s: an orphan on node %d: the attempt had no quorum, and its key stayed until it expired", name, n))
		case at-c.released > tidied:
			s.Orphans++
			s.Tell(at, fmt.Sprintf("%s: an orphan on node %d: another node had deleted it %v before it expired", name, n,
				time.Duration(at-c.released).Round(time.Millisecond)))
		}
	}
}

func owned(e history.Event) string {
	if e.Owner == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", e.Owner)
}

// String is the sum of it.
func (s *Story) String() string {
	return fmt.Sprintf("%d locks, %d attempts that failed; %d locks that expired, %d orphans, %d changes that no rule explains",
		s.Locks, s.Failed, s.Expired, s.Orphans, s.Odd)
}

// Line is a step in words.
func Line(e history.Event) string {
	text := fmt.Sprintf("node %d  %-8s", *e.Node, e.Op)
	if len(e.Resources) > 0 {
		text += " " + e.Resources[0]
	}
	if e.Holder != "" {
		text += " of " + e.Holder + owned(e)
	}
	if e.TTL > 0 {
		text += " for " + time.Duration(e.TTL).String()
	}
	if e.Fence > 0 {
		text += fmt.Sprint(", counter ", e.Fence)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}
