package trace

import (
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// A Story is what the steps of several nodes come to, and what is wrong with it.
type Story struct {
	Nodes int
	// Tell is called with what is wrong, when it is known.
	Tell func(at int64, what string)

	Locks, Expired, Orphans, Odd int

	claims map[[2]string]*claim // By key and holder.
}

// A claim is what became of one token on one key.
type claim struct {
	has      map[int]bool // The nodes that have it.
	most     int          // How many did at a time.
	released int64        // When the first node deleted it, 0: none has.
	quiet    bool         // Its expiry was told, or is meant, with min hold.
}

// tidied is how long a key may stay on one node when another one has deleted it.
const tidied = int64(time.Second)

// Add takes the next step.
func (s *Story) Add(e history.Event) {
	node := *e.Node
	if e.Op == history.StepGap || e.Op == history.StepWiped { // What it had is not known.
		for of, c := range s.claims {
			if delete(c.has, node); len(c.has) == 0 {
				delete(s.claims, of)
			}
		}
	}
	if len(e.Resources) == 0 {
		return
	}
	of := [2]string{e.Resources[0], e.Holder}
	c := s.claims[of]
	switch {
	case e.Op == history.StepOdd:
		s.Odd++
		s.Tell(e.At, fmt.Sprintf("node %d, key %s: %s", node, of[0], e.Detail))
	case e.Op == history.StepGrant, e.Op == history.StepFound && e.Holder != "":
		if c == nil {
			c = &claim{has: make(map[int]bool)}
			if s.claims == nil {
				s.claims = make(map[[2]string]*claim)
			}
			s.claims[of] = c
		}
		c.has[node] = true
		if len(c.has) == s.Nodes/2+1 && c.most < len(c.has) {
			s.Locks++
		}
		c.most = max(c.most, len(c.has))
	case c == nil:
	case e.Op == history.StepShorten:
		c.quiet = true
	case e.Op == history.StepRelease && c.released == 0:
		c.released = e.At
		fallthrough
	case e.Op == history.StepRelease, e.Op == history.StepExpire:
		if e.Op == history.StepExpire && c.has[node] {
			s.expired(e, c)
		}
		if delete(c.has, node); len(c.has) == 0 {
			delete(s.claims, of)
		}
	}
}

// expired says what is wrong with it that a node's key has expired.
func (s *Story) expired(e history.Event, c *claim) {
	name := fmt.Sprintf("key %s of %s", e.Resources[0], holder(e))
	switch {
	case c.quiet:
	case c.most <= s.Nodes/2:
		s.Orphans++
		s.Tell(e.At, fmt.Sprintf("%s: an orphan on node %d: the attempt had no quorum, and its key stayed until it expired", name, *e.Node))
	case c.released == 0:
		s.Expired++
		c.quiet = true
		s.Tell(e.At, name+": a lock that a quorum had has expired, and nobody released it")
	case e.At-c.released > tidied:
		s.Orphans++
		s.Tell(e.At, fmt.Sprintf("%s: an orphan on node %d: another node had deleted it %v before it expired", name, *e.Node,
			time.Duration(e.At-c.released).Round(time.Millisecond)))
	}
}

// holder is a digest, with the label behind it.
func holder(e history.Event) string {
	if e.Owner == "" {
		return e.Holder
	}
	return fmt.Sprintf("%s (%s)", e.Holder, e.Owner)
}

// String is the sum of it.
func (s *Story) String() string {
	return fmt.Sprintf("%d locks; %d that expired, %d orphans, %d changes that no rule explains", s.Locks, s.Expired, s.Orphans, s.Odd)
}

// Line is a step in words.
func Line(e history.Event) string {
	text := fmt.Sprintf("node %d  %-8s", *e.Node, e.Op)
	if len(e.Resources) > 0 {
		text += " " + e.Resources[0]
	}
	if e.Holder != "" {
		text += " of " + holder(e)
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
