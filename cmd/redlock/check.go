package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockcheck"
)

func (t *tool) checkCommand() *cobra.Command {
	var fence bool
	cmd := manual("check")
	cmd.Args = noArguments
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		nodes, err := t.global.nodeList()
		if err != nil {
			return err
		}
		opts := t.global.options()
		if fence {
			opts = append(opts, redlock.WithFencing())
		}
		report, err := redlockcheck.Run(cmd.Context(), nodes, opts...)
		if err != nil && cmd.Context().Err() == nil {
			return asUsage(err)
		} else if err != nil {
			return err
		}
		t.showReport(report)
		switch report.Verdict() {
		case redlockcheck.OK:
			return nil
		case redlockcheck.Unfit:
			return ended(exitUnfit)
		default:
			return ended(exitNo)
		}
	}
	cmd.Flags().BoolVar(&fence, "fence", false, "also look at what fencing tokens take")
	return cmd
}

func (t *tool) showReport(report redlockcheck.Report) {
	if t.global.json {
		writeJSON(t.out, reportJSON(report))
		return
	}
	s := t.styleFor(t.out)
	colours := map[string]func(string) string{"unfit": s.red, "warning": s.yellow, "unknown": s.yellow, "ok": s.green}
	text := verdictRE.ReplaceAllStringFunc(harmless(report.String()), func(found string) string { // It has texts of the nodes'.
		word := strings.TrimSpace(strings.TrimPrefix(found, "verdict: "))
		return strings.Replace(found, word, colours[word](word), 1)
	})
	t.foldf(t.out, "%s%s", text, quorumLine(report))
}

// verdictRE finds the verdicts in the text of a report: of a finding, where its line begins, and of all.
var verdictRE = regexp.MustCompile(`(?m)^ *(unfit|warning|unknown|ok) |^verdict: (unfit|warning|unknown|ok)$`)

// quorumLine says whether the nodes that answer in time are enough, if not all of them do.
func quorumLine(report redlockcheck.Report) string {
	answer := len(report.Nodes)
	for _, f := range report.Findings {
		if (f.Check == "reachable" || f.Check == "round-trip") && f.Verdict == redlockcheck.Unfit {
			answer-- // A node has one of them.
		}
	}
	need := len(report.Nodes)/2 + 1
	line := fmt.Sprintf("%d of %s answer in time, %d needed", answer, count(len(report.Nodes), "node"), need)
	switch {
	case answer == len(report.Nodes):
		return ""
	case answer < need:
		return line + ": no lock can be got\n"
	default:
		return line + "\n"
	}
}

// reportJSON is a report for programs.
func reportJSON(report redlockcheck.Report) any {
	type node struct {
		Node          string  `json:"node"`
		Product       string  `json:"product,omitempty"`
		Version       string  `json:"version,omitempty"`
		UptimeS       int64   `json:"uptime_s,omitempty"`
		RTTMS         float64 `json:"rtt_ms,omitempty"`
		ClockOffsetMS float64 `json:"clock_offset_ms"`
		ClockBoundMS  float64 `json:"clock_bound_ms,omitempty"`
	}
	type finding struct {
		Node    string `json:"node,omitempty"`
		Check   string `json:"check"`
		Verdict string `json:"verdict"`
		Text    string `json:"text"`
		Advice  string `json:"advice,omitempty"`
	}
	out := struct {
		Verdict  string    `json:"verdict"`
		Nodes    []node    `json:"nodes"`
		Findings []finding `json:"findings"`
	}{Verdict: report.Verdict().String()}
	for _, n := range report.Nodes {
		out.Nodes = append(out.Nodes, node{
			n.Node, n.Product, n.Version, int64(n.Uptime / time.Second), millisOf(n.RTT), millisOf(n.ClockOffset), millisOf(n.ClockBound),
		})
	}
	for _, f := range report.Findings {
		out.Findings = append(out.Findings, finding{f.Node, f.Check, f.Verdict.String(), f.Text, f.Advice})
	}
	return out
}
