package redlockcheck

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
)

// A Verdict says how fit for Redlock something is. The larger, the worse: unknown is worse than
// well, and better than known to be wrong.
type Verdict int

// The verdicts.
const (
	OK      Verdict = iota // nothing is wrong
	Unknown                // it could not be read; the finding says why
	Warning                // locks work, but not under every fault that they could survive
	Unfit                  // the node cannot be used for Redlock, or breaks exclusion
)

// String returns "ok", "unknown", "warning" or "unfit".
func (v Verdict) String() string {
	names := [...]string{"ok", "unknown", "warning", "unfit"}
	if v < 0 || int(v) >= len(names) {
		return fmt.Sprintf("Verdict(%d)", int(v))
	}
	return names[v]
}

// A Finding is what one check has found.
type Finding struct {
	// Node is the node's name, empty for a finding about all nodes together.
	Node string

	// Check is the name of the check, which does not change between versions;
	// docs/check.md lists them.
	Check string

	Verdict Verdict // how bad it is
	Text    string  // a sentence on what was found
	Advice  string  // a sentence on what to do; empty if there is nothing to do
}

// String returns the finding on one line, without the node.
func (f Finding) String() string {
	s := fmt.Sprintf("%v %s: %s.", f.Verdict, f.Check, f.Text)
	if f.Advice != "" {
		s += " " + f.Advice + "."
	}
	return s
}

// A NodeReport is what was measured of one node, for people and dashboards. A field that could
// not be read is zero.
type NodeReport struct {
	Node    string        // the node's name
	Product string        // "Redis", "Valkey" or what else the server says it is
	Version string        // of the product
	Uptime  time.Duration // of the server, in whole seconds
	RTT     time.Duration // the shortest of a few round trips; 0: no reply

	// ClockOffset is how far the node's clock is ahead of this client's, negative if it is
	// behind. The true value is within ClockBound of it, which is half of the round trip, or
	// 0 if the offset was not measured.
	ClockOffset, ClockBound time.Duration
}

// String returns what is known, on one line.
func (n NodeReport) String() string {
	parts := []string{n.Node + ":"}
	if n.Version != "" {
		parts = append(parts, n.Product+" "+n.Version+",", "up "+n.Uptime.String()+",")
	}
	if n.RTT > 0 {
		parts = append(parts, "round trip "+brief.Duration(n.RTT)+",")
	}
	if n.ClockBound > 0 {
		sign := "+"
		if n.ClockOffset < 0 {
			sign = "" // A negative one has its sign.
		}
		parts = append(parts, fmt.Sprintf("clock %s%s ± %s,", sign, brief.Duration(n.ClockOffset), brief.Duration(n.ClockBound)))
	}
	return strings.TrimRight(strings.Join(parts, " "), ",")
}

// A Report is what [Run] has found: a snapshot, of each node at a slightly different
// instant, for people, dashboards and a program's start. Nothing in package redlock depends on it.
type Report struct {
	Nodes []NodeReport // in the order given to Run, always all of them

	// Findings are those of the nodes, in the order given to Run, then those about
	// all nodes together; each in the order of docs/check.md. Of a node that could not be
	// asked, or not all of it, there is only the finding "reachable".
	Findings []Finding
}

// Verdict returns the worst of the findings' verdicts.
func (r Report) Verdict() Verdict {
	worst := OK
	for _, f := range r.Findings {
		worst = max(worst, f.Verdict)
	}
	return worst
}

// String returns the report in lines: the verdict, each node with its findings that
// are not ok, and those about all nodes.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "verdict: %v\n", r.Verdict())
	for _, n := range r.Nodes {
		b.WriteString(n.String() + "\n")
		r.write(&b, n.Node)
	}
	if slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Node == "" && f.Verdict != OK }) {
		b.WriteString("all nodes:\n")
		r.write(&b, "")
	}
	return b.String()
}

// write lists the findings about a node that are not ok. Checks that are unknown for the same reason, as most are where
// INFO is forbidden, share a line.
func (r Report) write(b *strings.Builder, node string) {
	unknown := make(map[string]int) // by text: which of lines
	var lines []Finding
	for _, f := range r.Findings {
		if f.Node != node || f.Verdict == OK {
			continue
		}
		if i, ok := unknown[f.Text]; ok && f.Verdict == Unknown {
			lines[i].Check += ", " + f.Check
			continue
		}
		if f.Verdict == Unknown {
			unknown[f.Text] = len(lines)
		}
		lines = append(lines, f)
	}
	for _, f := range lines {
		b.WriteString("  " + f.String() + "\n")
	}
}
