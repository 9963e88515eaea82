package redlock

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
)

// A SetDifference says that another client of a node was given other nodes than this one, although both use the same
// prefix; or that two addresses of this client lead to one server. Servers count here, not names: a server is known
// by the run_id of its INFO, and one that hides it, or was never reached, could be any.
type SetDifference struct {
	Who   string   // who has the other set, or one of them: the label of its WithOwner, or host:pid; empty with Twice
	Node  string   // where its note lies, which a node of both is
	Nodes []string // the other's, by the names that it gives them

	OnlyHere  []string // this client's nodes that the other has not
	OnlyThere []string // the other's nodes that this client has not
	Twice     []string // this client's nodes that are one server

	// QuorumsMeet is whether any quorum of the one set has a node in common with any of the other, as when one node
	// is added or taken away: a lock of the one then keeps out the other. If not, both can get it.
	QuorumsMeet bool

	Since time.Time // when it was first seen
	Seen  time.Time // when it was last seen
}

// String returns the difference as a sentence.
func (d SetDifference) String() string {
	here, there := strings.Join(d.OnlyHere, ", "), strings.Join(d.OnlyThere, ", ")
	what := ""
	switch {
	case len(d.Twice) > 0:
		return fmt.Sprintf("%s lead to one server, which votes for each and fails for all", strings.Join(d.Twice, " and "))
	case here == there:
		what = "finds another server at " + here
	case here == "":
		what = "also has " + there
	case there == "":
		what = "does not have " + here
	default:
		what = fmt.Sprintf("has %s instead of %s", there, here)
	}
	result := "both can get a lock at once, unless the prefixes or resources differ on purpose: then WithSetName says so"
	if d.QuorumsMeet {
		result = "their quorums always meet, as while a set is changed by one node"
	}
	return fmt.Sprintf("%s, a client of %s with %s, %s: %s", d.Who, d.Node, brief.Count(len(d.Nodes), "node"), what, result)
}

// clone returns the difference with slices of its own: a hook, or a caller of Stats, may change them.
func (d *SetDifference) clone() SetDifference {
	c := *d
	for _, names := range []*[]string{&c.Nodes, &c.OnlyHere, &c.OnlyThere, &c.Twice} {
		*names = slices.Clone(*names)
	}
	return c
}

// isOf reports whether the difference is about the server behind a name that both sets have.
func (d *SetDifference) isOf(name string) bool {
	return slices.Contains(d.OnlyHere, name) && slices.Contains(d.OnlyThere, name)
}

// key returns the same text for differences that are reported once.
func (d *SetDifference) key() string { return fmt.Sprintf("%q %q %v", d.Nodes, d.Twice, d.QuorumsMeet) }
