// Package judge says whether a run's history keeps what the documents promise.
//
// Two models are checked by Porcupine, a checker of linearizability: a lease for each resource, and the register that
// fences guard. Plain rules check one promise each. Nothing here knows the library: history is all that is read.
//
// A rule has to be right about histories that are odd and yet correct: an answer that is written late, a call whose
// outcome nobody knows, a process that stood still. So each rule takes for granted only what the history shows, and
// says how many facts it looked at. A rule that looked at none has shown nothing.
package judge

import (
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// A rule is one promise, and how a history is held against it.
type rule struct {
	name    string
	promise string
	page    string // Where the documents say so.
	fences  bool   // It is about locks that have fences.
	check   func(r *run, f *findings)
}

// rules are in the order of the report.
var rules = []rule{
	{
		"overlap", "Two locks on one resource are never held at the same time.",
		"docs/safety.md#exclusion", false, overlap,
	},
	{
		"lease model", "All calls on a resource can be put in one order in which a single lease would have answered so.",
		"docs/safety.md#exclusion", false, leaseModel,
	},
	{
		"fence order", "No two locks on a resource have one fence, and a later lock has a larger one.",
		"docs/safety.md#fencing", true, fenceOrder,
	},
	{
		"register", "Each operation carries its lock's fence. What fences guard loses no write, refuses who was succeeded, and never refuses a holder.",
		"docs/fencing.md", false, register,
	},
	{
		"register model", "All reads and writes of a register can be put in one order that agrees with their answers.",
		"docs/fencing.md", false, registerModel,
	},
	{
		"waiters", "Calls of Lock in one process get a resource in the order in which they came.",
		"docs/waiting.md#in-one-process", false, waiters,
	},
	{
		"loss signal", "The context of a lock that is kept alive ends when the lock does, at the latest.",
		"docs/holding.md#the-context", false, lossSignal,
	},
	{
		"validity", "Every lock has an end, at most its ttl after its call has returned. No call returns a lock after its end, and nothing is begun under it then.",
		"docs/algorithm.md#time", false, validity,
	},
	{
		"early loss", "A lock that nobody released, on nodes that lost no data, is not lost before it ends.",
		"docs/safety.md#exclusion", false, earlyLoss,
	},
	{
		"release outcome", "Unlock and Release return nil only if the lock was held until then.",
		"docs/errors.md#what-a-call-returns", false, releaseOutcome,
	},
	{
		"keys left", "When all locks are over, no node has a key of one.",
		"docs/safety.md#availability", false, keysLeft,
	},
	{
		"bounds", "Every call returns within its own time, whatever the nodes do.",
		"docs/algorithm.md#one-connection-per-node", false, bounds,
	},
	{
		"complete", "The history says how everything ended, and could have happened as it says.",
		"proof/history/history.go", false, complete,
	},
}

// An Option changes what is judged.
type Option func(*options)

type options struct {
	without []string
	time    time.Duration
}

// Without leaves rules out, by name: a library need not promise all of them. The names in the run's header are left out
// in any case.
func Without(names ...string) Option {
	return func(o *options) { o.without = append(o.without, names...) }
}

// ModelTime bounds how long each model is checked; the default is 30 s. What could not be decided in that time is
// reported as unknown, which is no success.
func ModelTime(d time.Duration) Option {
	return func(o *options) { o.time = d }
}

// Judge holds a history against all rules.
func Judge(events []history.Event, opts ...Option) Verdict {
	o := options{time: 30 * time.Second}
	for _, opt := range opts {
		opt(&o)
	}
	r := newRun(events)
	r.modelTime = o.time
	o.without = append(o.without, r.header.Without...)
	v := Verdict{Run: r.header, Events: len(events), Length: r.end, Stalls: r.stalls()}
	for _, rule := range rules {
		f := &findings{run: r}
		result := Result{Rule: rule.name, Promise: rule.promise, Page: rule.page}
		switch {
		case slices.Contains(o.without, rule.name):
			result.State = LeftOut
		case rule.fences && !r.header.Fences:
			result.State, result.Why = LeftOut, "the locks of this run have no fences"
		default:
			r.fenceOrder = r.header.Fences && !slices.Contains(o.without, "fence order")
			rule.check(r, f)
			result.judge(f)
		}
		v.Rules = append(v.Rules, result)
		for i := range f.violations {
			f.violations[i].Rule = rule.name
		}
		v.Violations = append(v.Violations, f.violations...)
		v.drawings = append(v.drawings, f.drawings...)
	}
	for _, name := range o.without {
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.name == name }) {
			v.Mistakes = append(v.Mistakes, "there is no rule "+name+" to leave out")
		}
	}
	return v
}
