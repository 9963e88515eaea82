// Package judge says whether a run's history keeps what the documents promise.
//
// Plain rules check one promise each. Nothing here knows the library: history is all that is read. So what any library did
// can be judged, by the rules that it promises.
//
// A rule has to be right about histories that are odd and yet correct: an answer that is written late, a call whose
// outcome nobody knows, a process that stood still. So each rule takes for granted only what the history shows, and
// says how many facts it looked at. A rule that looked at none has shown nothing.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// A rule is one promise, and how a history is held against it.
type rule struct {
	name    string
	page    string // Where docs/ says so.
	fences  bool   // It is about locks that have fences.
	check   func(r *run, f *findings)
	promise string
}

// rules are in the order of the report.
var rules = []rule{
	{"overlap", "safety.md#exclusion", false, overlap, "Two locks on one resource are never held at the same time."},
	{"fence order", "safety.md#fencing", true, fenceOrder, "No two locks on a resource have one fence, a later lock has a larger one, and a quorum of nodes had it exactly."},
	{"register", "fencing.md", false, register, "Each operation carries its lock's fence. What fences guard loses no write, and never refuses a holder."},
	{"support", "algorithm.md#time", false, support, "A quorum of nodes has the keys of a lock while it is held, until Until and for the drift more, and through its min hold."},
	{"steps", "algorithm.md#keys-and-scripts", false, steps, "Each change of a key on a node is a step of the rules: a lock, an extension, a release by its token, an expiry."},
	{"quarantine", "safety.md#quarantine", false, quarantine, "A node that has restarted gives no key to anybody before maxTTL is over."},
	{"kept", "holding.md", false, keptGoesOn, "A lock that is kept alive by a holder that reaches a quorum of nodes is not lost."},
	{"next in line", "waiting.md", false, nextInLine, "Who waits for a lock has it soon after its release, and mostly first who has waited longest."},
	{"turns", "waiting.md", false, turns, "A lock is passed on within a process, while it is held and its turn lasts, as a lock of its own with a larger fence."},
	{"waiters", "waiting.md#in-one-process", false, waiters, "Calls of Lock in one process get a resource in the order in which they came."},
	{"loss signal", "holding.md#the-context", false, lossSignal, "The context of a lock that is kept alive ends when the lock does, at the latest."},
	{"validity", "algorithm.md#time", false, validity, "Every lock has an end: its ttl after its call, less the drift at most. No call returns a lock after its end, and nothing is begun under it then."},
	{"early loss", "safety.md#exclusion", false, earlyLoss, "A lock that nobody released, on nodes that lost no data, is not lost before it ends."},
	{"release outcome", "errors.md#what-a-call-returns", false, releaseOutcome, "Unlock and Release return nil only if the lock was held until then."},
	{"released", "safety.md#availability", false, released, "When Unlock has returned nil, a quorum of nodes has no key of the lock."},
	{"keys left", "safety.md#availability", false, keysLeft, "When a call has failed, or its lock is released, no node keeps its key, nor when all locks are over."},
	{"bounds", "algorithm.md#one-connection-per-node", false, bounds, "Every call returns within its own time, whatever the nodes do, and a plain lock once a quorum has granted it."},
	{"hold limits", "holding.md#time-to-stop", false, holdLimits, "The context of a lock that is kept alive ends by max hold, and by stop time before Until."},
	{"permits", "semaphore.md", false, permits, "No more permits of a semaphore are held than it has, nor got in a period."},
	{"sets", "safety.md#clients-with-other-nodes", false, otherSets, "Nobody is told of another client with other nodes where there is none, whatever the nodes do."},
	{"complete", "../proof/history/history.go", false, complete, "The history says how everything ended, and could have happened as it says."},
}

// Judge holds a history against all rules but those that the run's header names: a library need not promise all of them.
func Judge(events []history.Event) Verdict {
	r := newRun(events)
	all := r // With the guests.
	if len(r.header.Guests) > 0 {
		r = newRun(slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return all.guest(e.Client) }))
	}
	v := Verdict{Run: r.header, Events: len(events), Length: r.end, Stalls: r.stalls(), Locks: Locks{len(r.got), r.contended(), r.passedOn}}
	for _, rule := range rules {
		f := &findings{run: r}
		if rule.name == "overlap" {
			f.run = all
		}
		result := Result{Rule: rule.name, Promise: rule.promise, Page: "docs/" + rule.page}
		switch {
		case slices.Contains(r.header.Without, rule.name):
			result.State = LeftOut
		case rule.fences && !r.header.Fences:
			result.State, result.Why = LeftOut, "the locks of this run have no fences"
		default:
			rule.check(f.run, f)
			result.judge(f)
		}
		v.Rules = append(v.Rules, result)
		for i := range f.violations {
			f.violations[i].Rule = rule.name
		}
		v.Violations = append(v.Violations, f.violations...)
	}
	return v
}

// findings is what one rule found.
type findings struct {
	run        *run
	facts      int
	count      int
	violations []Violation
}

const (
	maxViolations = 50                          // of a rule: the first ones tell enough
	maxAround     = 40                          // events in the piece of history of a violation
	margin        = int64(5 * time.Millisecond) // before and after it
)

// A place is where in a history a violation is.
type place struct {
	from, to int64
	resource string
	clients  []string
	since    int64 // From when on the events are shown, 0: from 'from'.
}

// place is about the lock from then to then.
func (l *lock) place(from, to int64) place {
	return place{from: from, to: to, resource: l.resources[0], clients: []string{l.client}}
}

func (f *findings) violation(p place, format string, args ...any) {
	f.count++
	if len(f.violations) >= maxViolations {
		return
	}
	p.clients = slices.Compact(slices.Sorted(slices.Values(p.clients)))
	f.violations = append(f.violations, Violation{
		Sentence: fmt.Sprintf(format, args...), From: p.from, To: p.to, Resource: p.resource, Clients: p.clients,
		Around: f.run.around(p),
	})
}

// judge notes what came out.
func (r *Result) judge(f *findings) {
	r.Facts, r.Violations = f.facts, f.count
	switch {
	case f.count > 0:
		r.State = Broken
	case f.facts == 0:
		r.State = Nothing
	default:
		r.State = Held
	}
}

// around is the piece of history at a place: what its clients did to the resource, and the faults. Of a long piece it
// has both ends.
func (r *run) around(p place) []history.Event {
	var piece []history.Event
	from := p.from
	if p.since > 0 {
		from = min(from, p.since)
	}
	for _, e := range r.events {
		if e.At < from-margin || e.At > p.to+margin || e.Kind == history.Votes || e.Kind == history.Run {
			continue
		}
		concerns := p.resource == "" || slices.Contains(r.resourcesOf(e), p.resource)
		if e.Client == "" || e.Fault != "" || concerns && (len(p.clients) == 0 || slices.Contains(p.clients, e.Client)) {
			piece = append(piece, e)
		}
	}
	slices.SortStableFunc(piece, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	if half := maxAround / 2; len(piece) > maxAround {
		piece = slices.Concat(piece[:half], piece[len(piece)-half:])
	}
	return piece
}

// resourcesOf are the resources that an event is about.
func (r *run) resourcesOf(e history.Event) []string {
	if len(e.Resources) > 0 {
		return e.Resources
	}
	if l := r.lockOf(e); l != nil {
		return l.resources
	}
	if c := r.calls[id{e.Client, e.Call}]; c != nil && e.Call > 0 {
		return c.begin.Resources
	}
	return nil
}
