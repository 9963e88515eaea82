package stored

import (
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/quarantine"
)

// A Marker is what a node is set up for, with [redlock.WithQuarantine]. The zero value stands for a node that knows
// nothing, as a new one does.
type Marker struct {
	Run    string        // the run_id of the server that it was written in; after a restart it differs from INFO's
	Votes  bool          // its quarantine was over when the marker was written
	Nodes  int           // how many nodes its clients have
	Other  int           // the neighbour of Nodes that other clients have, while nodes are added or taken away; 0: none
	MaxTTL time.Duration // the largest of its clients' WithQuarantine
	Since  time.Time     // when the first client met that run, by the node's clock: then the quarantine began
}

// ParseMarker reads the value of the key [Keys.Marker]. What is no marker gives the zero value.
func ParseMarker(value string) Marker { return Marker(quarantine.ParseMarker(value)) }

// Knows reports whether clients with so many nodes have come, or were admitted.
func (m Marker) Knows(nodes int) bool { return quarantine.Marker(m).Knows(nodes) }

// Fits reports whether the node grants locks to clients with so many nodes: to those that it knows and, while it knows
// one number only, to those with one node more or less.
func (m Marker) Fits(nodes int) bool { return quarantine.Marker(m).Fits(nodes) }

// String says what clients the node is set up for.
func (m Marker) String() string {
	if m.Nodes == 0 {
		return "no clients"
	}
	return fmt.Sprintf("clients with %s and a longest ttl of %v", quarantine.Marker(m).Sizes(), m.MaxTTL)
}
