package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Broken is a way to break something on purpose, so that a rule of the judge must be broken.
type Broken struct {
	Rule   string // The judge's name for it.
	Says   string // What the rule must say of it, if it looks at more than one thing.
	What   string
	Client string // What clients do instead of their work; see package client.
	// Forgets has the nodes forget all locks again and again, by this fault, without quarantine.
	Forgets string
	// Register has the observer answer that it has written what it has not.
	Register bool
}

// AllBroken are the ways to break something, by name.
var AllBroken = map[string]Broken{
	"until":       {Rule: "overlap", What: "a client takes its locks to be valid for longer than they are", Client: "until"},
	"one-node":    {Rule: "lease model", What: "a client's quorum is one node", Client: "one-node"},
	"steal":       {Rule: "overlap", What: "a client deletes the keys of others", Client: "steal"},
	"empty":       {Rule: "overlap", What: "nodes restart without their data and without quarantine", Client: "sits", Forgets: Empty},
	"clock":       {Rule: "overlap", What: "clocks of nodes are set forward", Client: "sits", Forgets: Clock},
	"fence":       {Rule: "fence order", What: "a client has fences of its own", Client: "fence"},
	"no-fence":    {Rule: "register", Says: "writes were granted, and the register is", What: "a client writes without a fence, also when its lock is over", Client: "no-fence"},
	"next-fence":  {Rule: "register", Says: "had the fence", What: "a client uses a fence that is not its lock's, and keeps their order", Client: "next-fence"},
	"register":    {Rule: "register model", What: "the register forgets writes", Register: true},
	"queue":       {Rule: "waiters", What: "calls that wait do not stand in line", Client: "queue"},
	"signal":      {Rule: "loss signal", What: "a client hears of no loss", Client: "signal"},
	"late-signal": {Rule: "loss signal", What: "a client hears of a loss a second late", Client: "late-signal"},
	"ttl":         {Rule: "validity", Says: "more than its ttl", What: "a client takes its locks to be valid for longer than their ttl", Client: "until"},
	"late-lock":   {Rule: "validity", Says: "and its lock had ended at", What: "a call returns its lock when that is over", Client: "late-lock"},
	"no-until":    {Rule: "validity", Says: "and its lock had until", What: "a client does not know until when it has its locks", Client: "no-until"},
	"late-work":   {Rule: "validity", Says: "a section under", What: "a client begins its work when its lock is over", Client: "late-work"},
	"delete":      {Rule: "early loss", What: "a client deletes the keys of others while they work", Client: "delete"},
	"nil-unlock":  {Rule: "release outcome", What: "Unlock returns nil for a lock that had ended", Client: "nil-unlock"},
	"bad-handoff": {Rule: "release outcome", What: "Release returns nil for a lock that was released before", Client: "bad-handoff"},
	"keys-left":   {Rule: "keys left", What: "a client forgets its locks, and they live for an hour", Client: "keys-left"},
	"bound":       {Rule: "bounds", What: "a call takes longer than it may", Client: "bound"},
	"unheard":     {Rule: "complete", What: "a client does not tell of its locks", Client: "unheard"},
}

// Break makes the plan one that has to show what is broken, and nothing else.
func (p *Plan) Break(name string) error {
	b, ok := AllBroken[name]
	if !ok {
		return fmt.Errorf("plan: nothing is broken as %q; there are %s", name,
			strings.Join(slices.Sorted(maps.Keys(AllBroken)), ", "))
	}
	p.Broken, p.Course, p.Faults, p.MaxTTL, p.LeftAfter = b, "broken", nil, 0, time.Second
	p.Nodes, p.Clients = 3, 2
	if b.Forgets == "" {
		return nil
	}
	p.TTL = 5 * time.Second // Whoever gets a forgotten lock gets it long before its end.
	most := p.Nodes/2 + 1
	// On a busy machine nodes need long to come back, and clients to get locks: a longer run has longer pauses, too.
	pause := max(warmup, p.Duration/3)
	for at := pause; at < p.Duration; at += pause {
		for i := range most {
			f := Fault{At: at, Kind: b.Forgets, Node: i}
			if f.Kind == Clock {
				f.Amount = -time.Minute
			} else {
				f.For = readable
			}
			p.Faults = append(p.Faults, f)
		}
	}
	return nil
}
