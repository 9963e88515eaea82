package redlock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
)

// From facts to findings. Nothing here does any I/O.

const (
	// slowShare is the share of the node timeout that a round trip may take: that
	// leaves room for a connection to be made, and for what is slower than the best.
	slowShare = 4

	// firstFit is the major version of Redis from which on all scripts work:
	// it has ZPOPMIN, and lets scripts write after TIME.
	firstFit = 5
)

// A fitness is what findings depend on besides the nodes.
type fitness struct {
	nodeTimeout time.Duration
	prefix      string
	fencing     bool
	polling     bool
	quarantine  time.Duration // its maxTTL; 0: none
	nodes       int           // how many New was given
}

// nodeChecks are the checks of one node, in the order of the report.
var nodeChecks = []struct {
	name string
	find func(*fitness, *facts) Finding
}{
	{"version", (*fitness).version},
	{"role", (*fitness).role},
	{"cluster", (*fitness).cluster},
	{"database", (*fitness).database},
	{"eviction", (*fitness).eviction},
	{"memory", (*fitness).memory},
	{"persistence", (*fitness).persistence},
	{"timeout", (*fitness).timeout},
	{"round-trip", (*fitness).roundTrip},
	{"acl", (*fitness).acl},
	{"writes", (*fitness).writes},
}

// newReport evaluates what was read of the nodes.
func newReport(fit *fitness, nodes []facts) Report {
	clocks, clientClock := clockFindings(nodes)
	var r Report
	for i := range nodes {
		f := &nodes[i]
		n := NodeReport{Node: f.node}
		reachable := fit.reachable(f)
		reachable.Node, reachable.Check = f.node, "reachable"
		r.Findings = append(r.Findings, reachable)
		if f.down == nil {
			n = f.report()
			for _, c := range nodeChecks {
				found := c.find(fit, f)
				found.Node, found.Check = f.node, c.name
				r.Findings = append(r.Findings, found)
			}
			r.Findings = append(r.Findings, clocks[i], sameServer(nodes, i))
			if fit.quarantine > 0 {
				found := fit.quarantined(f)
				found.Node, found.Check = f.node, "quarantine"
				r.Findings = append(r.Findings, found)
			}
		}
		r.Nodes = append(r.Nodes, n)
	}
	r.Findings = append(r.Findings, nodeCount(len(nodes)))
	if clientClock != nil {
		r.Findings = append(r.Findings, *clientClock)
	}
	return r
}

func (f *facts) report() NodeReport {
	n := NodeReport{Node: f.node, RTT: f.rtt}
	n.Product, n.Version = f.product()
	if s, ok := f.info.Number("uptime_in_seconds"); ok {
		n.Uptime = time.Duration(min(max(s, 0), int64(maxDuration/time.Second))) * time.Second
	}
	if f.timeErr == nil && f.rtt > 0 {
		n.ClockOffset, n.ClockBound = f.offset, max(f.rtt/2, 1)
	}
	return n
}

// Three ways to say what was found.

func fine(format string, args ...any) Finding {
	return Finding{Verdict: VerdictOK, Text: fmt.Sprintf(format, args...)}
}

func amiss(v Verdict, text, advice string) Finding {
	return Finding{Verdict: v, Text: text, Advice: advice}
}

func unknown(why error, advice string) Finding {
	return Finding{Verdict: VerdictUnknown, Text: words(why.Error()), Advice: advice}
}

// unread is the finding of a check that needs a field of INFO which is missing.
func (f *facts) unread(field string) Finding {
	if f.infoErr != nil {
		return unknown(f.infoErr, "Grant the right +info, or look at the server's settings by other means")
	}
	return unknown(errors.New("INFO does not tell "+field), "Look at the server's settings by other means")
}

// words is a text of the server's, or an error with one, as it may be shown.
func words(s string) string {
	const most = 200
	s = strings.TrimPrefix(s, "redlock: ")
	if len(s) > most {
		s = s[:most] + "…"
	}
	if !isPrintable(s) {
		s = strconv.Quote(s)
	}
	return strings.TrimRight(s, ".")
}

func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
}

func (fit *fitness) reachable(f *facts) Finding {
	switch {
	case f.down == nil:
		return fine("it answers")
	case f.alive:
		return amiss(VerdictUnknown, "it answers on the connection that locks use, but there is no other to ask it on: "+words(f.down.Error()),
			"Let the pool have another connection")
	default:
		return amiss(VerdictUnfit, "it does not answer: "+words(f.down.Error()),
			"Look whether it runs, and whether address, network, password and TLS are right")
	}
}

func (fit *fitness) roundTrip(f *facts) Finding {
	rtt, timeout := brief.Duration(f.rtt), brief.Duration(fit.nodeTimeout)
	const advice = "Raise the node timeout to at least four round trips (WithNodeTimeout), or use a node that is nearer"
	switch {
	case f.rtt > fit.nodeTimeout:
		return amiss(VerdictUnfit, fmt.Sprintf("a round trip takes %s, and its votes come after the node timeout of %s", rtt, timeout), advice)
	case f.rtt > fit.nodeTimeout/slowShare:
		return amiss(VerdictWarning, fmt.Sprintf("a round trip takes %s, which is much of the node timeout of %s", rtt, timeout), advice)
	default:
		return fine("a round trip takes %s", rtt)
	}
}
