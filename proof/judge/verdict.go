package judge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// A State is how a rule came out.
type State string

// What may come out of a rule.
const (
	Held    State = "held"
	Broken  State = "broken"
	Nothing State = "nothing" // There was nothing to look at, so that nothing is shown.
	LeftOut State = "left out"
)

// A Verdict is what came out of a run.
type Verdict struct {
	Run    history.Header
	Events int
	Length int64 // Of the run, in ns.
	Stalls Stalls
	Locks  Locks
	Rules  []Result
	// Violations has at most 50 of each rule.
	Violations []Violation
}

// Locks are how many were got, how many of these somebody else wanted meanwhile, as what nobody wanted shows little, and how
// many were passed on within a process.
type Locks struct{ All, Contended, Passed int }

// A Result is what came out of one rule.
type Result struct {
	Rule       string
	Promise    string
	Page       string
	State      State
	Why        string // It was left out.
	Facts      int    // How many it looked at.
	Violations int
}

// A Violation is a piece of a history that breaks a promise. Times are those of the history.
type Violation struct {
	Rule     string
	Sentence string
	From     int64
	To       int64
	Resource string
	Clients  []string
	Around   []history.Event
}

// OK reports whether nothing was violated. A rule that had nothing to look at is no
// failure; Named(Nothing) lists those.
func (v Verdict) OK() bool {
	return !slices.ContainsFunc(v.Rules, func(r Result) bool { return r.State == Broken })
}

// Total is how many violations there were, of which not all need be listed.
func (v Verdict) Total() (n int) {
	for _, r := range v.Rules {
		n += r.Violations
	}
	return n
}

// Rule returns what came out of the rule with that name.
func (v Verdict) Rule(name string) Result {
	for _, r := range v.Rules {
		if r.Rule == name {
			return r
		}
	}
	return Result{Rule: name, State: LeftOut, Why: "there is no such rule"}
}

// Named returns the names of the rules in a state.
func (v Verdict) Named(s State) (names []string) {
	for _, r := range v.Rules {
		if r.State == s {
			names = append(names, r.Rule)
		}
	}
	return names
}

// String is the verdict for people.
func (v Verdict) String() string {
	var b strings.Builder
	says := fmt.Sprintf("%d violations", v.Total())
	if v.OK() {
		says = "no violation"
	}
	fmt.Fprintf(&b, "%s: %s, course %s, seed %d, %s, %d events, %d locks, of which %d were wanted, and %d passed on\n",
		says, v.Run.Library, v.Run.Course, v.Run.Seed, time.Duration(v.Length).Round(time.Millisecond), v.Events, v.Locks.All, v.Locks.Contended, v.Locks.Passed)
	if s := v.Stalls; s.Lived > 0 {
		fmt.Fprintf(&b, "  stalls of processes: %d, %v of %v in all, which is excused\n", s.Count,
			time.Duration(s.Time).Round(time.Millisecond), time.Duration(s.Lived).Round(time.Millisecond))
	}
	for _, r := range v.Rules {
		fmt.Fprintf(&b, "  %-8s  %-15s  %7d facts  %s\n", r.State, r.Rule, r.Facts, r.text())
	}
	for _, x := range v.Violations {
		b.WriteString(x.String())
	}
	return b.String()
}

func (r Result) text() string {
	switch {
	case r.Why != "":
		return r.Why
	case r.State == Nothing:
		return "nothing to look at, so nothing is shown"
	default:
		return r.Promise + " (" + r.Page + ")"
	}
}

// String is the violation for people, with the events around it.
func (x Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s\n  from %s to %s", x.Rule, x.Sentence, at(x.From), at(x.To))
	if x.Resource != "" {
		fmt.Fprintf(&b, ", resource %s", x.Resource)
	}
	if len(x.Clients) > 0 {
		fmt.Fprintf(&b, ", clients %s", strings.Join(x.Clients, " "))
	}
	b.WriteString("\n")
	for _, e := range x.Around {
		fmt.Fprintf(&b, "    %s\n", line(e))
	}
	return b.String()
}

// at is an instant of the run, in seconds.
func at(t int64) string { return fmt.Sprintf("%.6fs", time.Duration(t).Seconds()) }

// line is an event as the history has it, behind its time.
func line(e history.Event) string {
	text, _ := json.Marshal(e) // All events can be.
	return at(e.At) + " " + string(text)
}

// String names a lock by its client and the call that acquired it.
func (l *lock) String() string { return fmt.Sprintf("%s's lock %d", l.client, l.call) }

// String names a call.
func (c *call) String() string { return fmt.Sprintf("%s's %s (call %d)", c.client, c.begin.Op, c.call) }

func span(from, to int64) string { return time.Duration(to - from).String() }
