package fitness

import (
	"math"
	"time"
)

// From facts to findings. Nothing here does any I/O.

// nodeChecks are the checks of one node, in the order of the report.
var nodeChecks = []struct {
	name string
	find func(*Setup, *facts) Finding
}{
	{"version", (*Setup).version},
	{"role", (*Setup).role},
	{"cluster", (*Setup).cluster},
	{"database", (*Setup).database},
	{"eviction", (*Setup).eviction},
	{"memory", (*Setup).memory},
	{"persistence", (*Setup).persistence},
	{"timeout", (*Setup).timeout},
	{"round-trip", (*Setup).roundTrip},
	{"acl", (*Setup).acl},
	{"writes", (*Setup).writes},
	{"undeclared-keys", (*Setup).undeclaredKeys},
}

// evaluate says what was found, by what was read of the nodes.
func (s *Setup) evaluate(nodes []facts) Report {
	clocks, clientClock := clockFindings(nodes)
	var r Report
	for i := range nodes {
		f := &nodes[i]
		n := NodeReport{Node: f.node}
		reachable := s.reachable(f)
		reachable.Node, reachable.Check = f.node, "reachable"
		r.Findings = append(r.Findings, reachable)
		if f.down == nil {
			n = f.report()
			for _, c := range nodeChecks {
				found := c.find(s, f)
				found.Node, found.Check = f.node, c.name
				r.Findings = append(r.Findings, found)
			}
			r.Findings = append(r.Findings, clocks[i], sameServer(nodes, i))
			if found, ok := s.quarantined(f); ok {
				found.Node, found.Check = f.node, "quarantine"
				r.Findings = append(r.Findings, found)
			}
		}
		r.Nodes = append(r.Nodes, n)
	}
	r.Findings = append(r.Findings, s.nodeCount())
	if clientClock != nil {
		r.Findings = append(r.Findings, *clientClock)
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
