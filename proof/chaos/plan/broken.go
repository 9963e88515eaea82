package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Broken is a way to break something on purpose, so that a rule of the judge must be broken. It is no fault of a plan:
// those are in plan.go.
type Broken struct {
	Rule   string // The judge's name for it.
	What   string
	Client string // What clients do instead of their work; see package client.
	// Forgets has the nodes forget all locks again and again, by this fault, without quarantine; or too early, by Rate.
	Forgets string
	// MaxTTL is for how long nodes are to abstain, whatever clients do.
	MaxTTL time.Duration
}

// AllBroken are the ways to break something, by name.
var AllBroken = map[string]Broken{
	"empty": {Rule: "overlap", What: "nodes restart without their data and without quarantine", Client: "sits", Forgets: Empty},
	"stale": {Rule: "overlap", What: "a majority restarts with what it had two seconds ago, without quarantine", Client: "sits", Forgets: Stale},
	"drift": {Rule: "overlap", What: "a client takes its locks to be valid without drift, and clocks of nodes are fast", Client: "drift", Forgets: Rate},
	"clock": {Rule: "overlap", What: "clocks of nodes are set forward", Client: "sits", Forgets: Clock},
	"hasty": {Rule: "quarantine", What: "clients know of no quarantine", Client: "hasty", Forgets: Kill, MaxTTL: 4 * time.Second},
}

// Break makes the plan one that has to show what is broken, and nothing else.
func (p *Plan) Break(name string) error {
	b, ok := AllBroken[name]
	if !ok {
		return fmt.Errorf("plan: nothing is broken as %q; there are %s", name,
			strings.Join(slices.Sorted(maps.Keys(AllBroken)), ", "))
	}
	p.Broken, p.Course, p.Faults, p.MaxTTL, p.LeftAfter = b, "broken", nil, b.MaxTTL, time.Second
	p.Nodes, p.Clients, p.LastMaxTTL = 3, 2, b.MaxTTL
	p.Bare, p.Expiring, p.Led = nil, nil, nil
	p.Resources, p.Fenced = p.Resources[:4], p.Resources[:2]
	p.TTL = 5 * time.Second // Whoever gets a forgotten lock gets it long before its end.
	if b.Forgets == Rate {
		for i := range p.Nodes {
			p.Faults = append(p.Faults, Fault{Kind: Rate, Node: i, Amount: maxRate})
		}
		return nil
	}
	most := p.Nodes/2 + 1
	// On a busy machine nodes need long to come back, and clients to get locks: a longer run has longer pauses, too.
	pause := max(warmup, p.Duration/3)
	if b.Forgets == Stale {
		pause = min(pause, 2*Ago) // What is forgotten was got just before: with longer pauses that may be nothing.
	}
	for at := pause; at < p.Duration; at += pause {
		for i := range most {
			f := Fault{At: at, Kind: b.Forgets, Node: i}
			switch f.Kind {
			case Clock:
				f.Amount = -time.Minute
			case Stale:
				f.For = Ago + readable
			default:
				f.For = readable
			}
			p.Faults = append(p.Faults, f)
		}
	}
	return nil
}
