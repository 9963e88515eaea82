package trace

import (
	"fmt"
	"strconv"
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
	unseen map[int]bool         // Nodes that may have anything.
}

// A claim is what became of one token on one key.
type claim struct {
	has      map[int]bool // The nodes that have it.
	most     int          // How many did at a time.
	released int64        // When the first node deleted it, 0: none has.
	quiet    bool         // Its expiry was told, or is meant, with min hold; or not all nodes were seen.
}

// tidied is how long a key may stay on one node when another one has deleted it.
const tidied = int64(time.Second)

// Add takes the next step.
func (s *Story) Add(e history.Event) {
	if s.claims == nil {
		s.claims, s.unseen = make(map[[2]string]*claim), make(map[int]bool)
	}
	node := *e.Node
	switch e.Op {
	case history.StepGap, history.StepWiped, history.StepSet:
		s.unseen[node] = e.Op == history.StepGap
		for of, c := range s.claims {
			c.quiet = true
			s.gone(of, node)
		}
	case history.StepWatch:
		s.unseen[node] = false
	case history.StepOdd:
		s.Odd++
		s.Tell(e.At, fmt.Sprintf("node %d, key %s: %s", node, shown(e.Resources[0]), e.Detail))
	case history.StepFound, history.StepGrant:
		for of := range s.claims {
			if of[0] == e.Resources[0] && of[1] != e.Holder {
				s.gone(of, node)
			}
		}
		if e.Holder != "" {
			s.claim(e, node)
		}
	case history.StepShorten, history.StepRelease, history.StepExpire:
		s.ended(e, node)
	}
}

// gone notes that a node does not have a claim any more.
func (s *Story) gone(of [2]string, node int) {
	if c := s.claims[of]; c != nil {
		if delete(c.has, node); len(c.has) == 0 {
			delete(s.claims, of)
		}
	}
}

func (s *Story) claim(e history.Event, node int) {
	of := [2]string{e.Resources[0], e.Holder}
	c := s.claims[of]
	if c == nil {
		c = &claim{has: make(map[int]bool)}
		for _, unseen := range s.unseen {
			c.quiet = c.quiet || unseen
		}
		s.claims[of] = c
	}
	c.has[node] = true
	if len(c.has) == s.Nodes/2+1 && c.most < len(c.has) {
		s.Locks++
	}
	c.most = max(c.most, len(c.has))
}

func (s *Story) ended(e history.Event, node int) {
	of := [2]string{e.Resources[0], e.Holder}
	c := s.claims[of]
	switch {
	case c == nil:
	case e.Op == history.StepShorten:
		c.quiet = true
	case e.Op == history.StepRelease && c.released == 0:
		c.released = e.At
		s.gone(of, node)
	default:
		if e.Op == history.StepExpire && c.has[node] {
			s.expired(e, c)
		}
		s.gone(of, node)
	}
}

// expired says what is wrong with it that a node's key has expired.
func (s *Story) expired(e history.Event, c *claim) {
	name := fmt.Sprintf("key %s of %s", shown(e.Resources[0]), holder(e))
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
	return fmt.Sprintf("%s (%s)", e.Holder, shown(e.Owner))
}

// shown is a name in printable text: a server may have any.
func shown(name string) string {
	quoted := strconv.Quote(name)
	return quoted[1 : len(quoted)-1]
}

// String is the sum of it.
func (s *Story) String() string {
	return fmt.Sprintf("%d locks; %d that expired, %d orphans, %d changes that no rule explains", s.Locks, s.Expired, s.Orphans, s.Odd)
}

// Line is a step in words.
func Line(e history.Event) string {
	text := fmt.Sprintf("node %d  %-8s", *e.Node, e.Op)
	if len(e.Resources) > 0 {
		text += " " + shown(e.Resources[0])
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
