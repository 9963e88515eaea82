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
	Says   string // What the rule must say of it, if it looks at more than one thing.
	What   string
	Client string // What clients do instead of their work; see package client.
	// Forgets has the nodes forget all locks again and again, by this fault, without quarantine; or too early, by Rate.
	Forgets string
	// MaxTTL is for how long nodes are to abstain, whatever clients do.
	MaxTTL time.Duration
	// Takes is how long it goes on at least before anybody can notice.
	Takes time.Duration
}

// AllBroken are the ways to break something, by name.
var AllBroken = map[string]Broken{
	"until":       {Rule: "overlap", What: "a client takes its locks to be valid for longer than they are", Client: "until"},
	"one-node":    {Rule: "support", What: "a client's quorum is one node", Client: "one-node"},
	"steal":       {Rule: "overlap", What: "a client deletes the keys of others", Client: "steal"},
	"empty":       {Rule: "overlap", What: "nodes restart without their data and without quarantine", Client: "sits", Forgets: Empty},
	"stale":       {Rule: "overlap", What: "a majority restarts with what it had two seconds ago, without quarantine", Client: "sits", Forgets: Stale},
	"drift":       {Rule: "overlap", What: "a client takes its locks to be valid without drift, and clocks of nodes are fast", Client: "drift", Forgets: Rate},
	"clock":       {Rule: "overlap", What: "clocks of nodes are set forward", Client: "sits", Forgets: Clock},
	"fence":       {Rule: "fence order", What: "a client has fences of its own", Client: "fence"},
	"no-fence":    {Rule: "register", Says: "writes were granted, and the register is", What: "a client writes without a fence, also when its lock is over", Client: "no-fence"},
	"next-fence":  {Rule: "register", Says: "had the fence", What: "a client uses a fence that is not its lock's, and keeps their order", Client: "next-fence"},
	"hasty":       {Rule: "quarantine", What: "clients know of no quarantine", Client: "hasty", Forgets: Kill, MaxTTL: 4 * time.Second},
	"once":        {Rule: "kept", What: "a client extends nothing", Client: "once"},
	"deaf":        {Rule: "next in line", What: "clients that wait hear of no release", Client: "deaf"},
	"early":       {Rule: "released", What: "Unlock returns before any answer", Client: "early"},
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
	"short":       {Rule: "validity", Says: "its ttl less the drift goes to", What: "a client takes its locks to end a tenth of their ttl too early", Client: "short"},
	"bound":       {Rule: "bounds", Says: "had to return by", What: "a call takes longer than it may", Client: "bound"},
	"all-nodes":   {Rule: "bounds", Says: "which is a quorum", What: "a call goes on waiting when a quorum has granted its lock", Client: "all-nodes"},
	"min-hold":    {Rule: "min hold", What: "a client releases locks with min hold at once", Client: "min-hold"},
	"max-hold":    {Rule: "hold limits", Says: "max hold 100ms", What: "a client goes on beyond max hold", Client: "max-hold"},
	"stop-time":   {Rule: "hold limits", Says: "stop time 900ms", What: "a client is told to stop when its lock ends", Client: "stop-time"},
	"wanted":      {Rule: "wanted", What: "a holder does not hear who waits", Client: "wanted"},
	"permits":     {Rule: "permits", Says: "are held", What: "clients count one permit more than there are", Client: "permits"},
	"period":      {Rule: "permits", Says: "were got from", What: "clients give permits back before their period is over", Client: "period"},
	"other-nodes": {Rule: "sets", What: "a client has one node alone", Client: "other-nodes", Takes: 50 * time.Second},
	"guard":       {Rule: "guard", What: "a client writes without asking its Guard", Client: "guard"},
	"owner":       {Rule: "owners", What: "a client has the label of another one", Client: "owner"},
	"unheard":     {Rule: "complete", What: "a client does not tell of its locks", Client: "unheard"},
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
	if b.Forgets == "" {
		return nil
	}
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
