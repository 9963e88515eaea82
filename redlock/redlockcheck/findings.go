package redlockcheck

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
)

// This file turns facts into findings, without any I/O.

// checks are the checks of a node, in the order of the report. A check that does not apply finds Finding{}.
var checks = []struct {
	name string
	find func(*survey, *facts) Finding
}{
	{"version", (*survey).version},
	{"role", (*survey).role},
	{"cluster", (*survey).cluster},
	{"database", (*survey).database},
	{"eviction", (*survey).eviction},
	{"memory", (*survey).memory},
	{"persistence", (*survey).persistence},
	{"snapshots", (*survey).snapshots},
	{"timeout", (*survey).timeout},
	{"certificate", (*survey).certificate},
	{"round-trip", (*survey).roundTrip},
	{"acl", (*survey).acl},
	{"default-user", (*survey).defaultUser},
	{"writes", (*survey).writes},
	{"undeclared-keys", (*survey).undeclaredKeys},
	{"clock", (*survey).clock},
	{"same-server", (*survey).sameServer},
	{"quarantine", (*survey).quarantine},
}

// report returns the findings by the facts about the nodes.
func (s *survey) report() Report {
	var r Report
	add := func(node, check string, found Finding) {
		if found != (Finding{}) {
			found.Node, found.Check = node, check
			r.Findings = append(r.Findings, found)
		}
	}
	for i := range s.nodes {
		f := &s.nodes[i]
		add(f.node, "reachable", s.reachable(f))
		r.Nodes = append(r.Nodes, f.report())
		if f.down != nil {
			continue
		}
		for _, c := range checks {
			add(f.node, c.name, c.find(s, f))
		}
	}
	add("", "node-count", s.nodeCount())
	add("", "clock", s.clientClock())
	for _, d := range s.setDifferences() {
		add("", "sets", d)
	}
	return r
}

func (f *facts) report() NodeReport {
	n := NodeReport{Node: f.node, RTT: f.rtt}
	n.Product, n.Version = f.product()
	if seconds, ok := f.info.Number("uptime_in_seconds"); ok {
		n.Uptime = time.Duration(min(max(seconds, 0), math.MaxInt64/int64(time.Second))) * time.Second
	}
	if f.timeErr == nil && f.rtt > 0 {
		n.ClockOffset, n.ClockBound = f.offset, max(f.rtt/2, 1)
	}
	return n
}

func fine(format string, args ...any) Finding {
	return Finding{Verdict: OK, Text: fmt.Sprintf(format, args...)}
}

// amiss returns a finding. Only its text is formatted, so the advice comes first.
func amiss(v Verdict, advice, format string, args ...any) Finding {
	return Finding{Verdict: v, Text: fmt.Sprintf(format, args...), Advice: advice}
}

func unknown(why error, advice string) Finding {
	return Finding{Verdict: Unknown, Text: words(why.Error()), Advice: advice}
}

// unread returns the finding of a check that needs a missing field of INFO.
func (f *facts) unread(field string) Finding {
	if f.infoErr != nil {
		return unknown(f.infoErr, remedy("info", f.infoErr, "look at the server's settings by other means"))
	}
	return unknown(errors.New("INFO does not tell "+field), "Look at the server's settings by other means")
}

// words returns a server's text, or an error with one, in the form in which it may be shown.
func words(s string) string {
	const most = 200
	s = strings.TrimPrefix(s, "redlock: ")
	if len(s) > most {
		s = s[:most] + "…"
	}
	if !brief.IsPrintable(s) {
		s = strconv.Quote(s)
	}
	return strings.TrimRight(s, ".")
}
