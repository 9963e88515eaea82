package main

import (
	"fmt"
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
	printf(t.out, "%s%s", harmless(report.String()), quorumLine(report)) // It has texts of the nodes'.
}

// quorumLine says whether the nodes that answer in time are enough, if not all of them do.
func quorumLine(report redlockcheck.Report) string {
	answer := len(report.Nodes)
	for _, f := range report.Findings {
		if (f.Check == "reachable" || f.Check == "round-trip") && f.Verdict == redlockcheck.Unfit {
			answer-- // A node has one of them.
		}
	}
	need := len(report.Nodes)/2 + 1
	line := fmt.Sprintf("%d of %d nodes answer in time, %d needed", answer, len(report.Nodes), need)
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
