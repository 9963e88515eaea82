package judge

import (
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// settling is how long clients may need for a node whose fault is over: what was on its way arrives late, and they connect
// again.
const settling = int64(time.Second)

// harmless are faults that cost no vote.
var harmless = []string{"clock", "rate", history.Stall}

// abstaining are those after which a node votes for nobody, where there is quarantine.
var abstaining = []string{"kill", "rolling", history.Empty, history.Stale}

// healthy reports whether a client could reach a quorum of nodes that vote, all the time, and servers ran.
func (r *run) healthy(client string, from, to int64) bool {
	sick := r.sick(client, from, to)
	return sick != nil && r.nodes(client)-len(sick) >= r.quorum(client) && !r.starved(from, to)
}

// sick are the nodes that a client may not have reached then, or that did not vote; nil if that may be so of all.
func (r *run) sick(client string, from, to int64) map[int]bool {
	sick := make(map[int]bool)
	for _, f := range r.faults {
		after := settling
		switch {
		case slices.Contains(harmless, f.name):
			continue
		case slices.Contains(abstaining, f.name):
			after += r.header.LastMaxTTL
		}
		if f.from > to || f.to+after < from || f.client != "" && !f.hits(client) && f.name != "raise" {
			continue
		}
		if f.node < 0 { // It is the client's own, or everybody's.
			return nil
		}
		if r.has(client, f.node) {
			sick[f.node] = true
		}
	}
	return sick
}

// starved reports whether a server without a fault answered late, also on the shortest way: then the machine is busy.
func (r *run) starved(from, to int64) bool {
	return slices.ContainsFunc(r.late, func(e *history.Event) bool {
		return e.From <= to && e.At >= from && !slices.ContainsFunc(r.faults, func(f fault) bool { return f.node == *e.Node && f.from <= e.At && f.to >= e.From })
	})
}

// disturbed reports whether any client had a fault of its own then. What its attempts have got on some nodes keeps others
// out, until it goes on or that expires.
func (r *run) disturbed(from, to int64) bool {
	return slices.ContainsFunc(r.faults, func(f fault) bool {
		return f.client != "" && f.name != history.Stall && f.from <= to && f.to+settling >= from
	})
}

// has reports whether a node is one of the client's.
func (r *run) has(client string, node int) bool {
	set, ok := r.sets[client]
	return !ok || slices.Contains(set, node)
}

// nodes is how many a client has.
func (r *run) nodes(client string) int {
	if set, ok := r.sets[client]; ok {
		return len(set)
	}
	return r.header.Nodes
}

func (r *run) quorum(client string) int { return r.nodes(client)/2 + 1 }

// ran reports whether a process ran all the time, but for moments.
func (r *run) ran(client string, from, to int64) bool {
	return r.excused(client, from, to-from) <= to+r.header.SignalSlack
}
