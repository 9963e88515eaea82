package redlockcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestReportString(t *testing.T) {
	unknown := func(check string) Finding {
		return Finding{
			Node: "n1", Check: check, Verdict: Unknown,
			Text: `"INFO: NOPERM\r\nno"`, Advice: "Grant the right +info, or look at the server's settings by other means",
		}
	}
	good := func(node string) NodeReport {
		return NodeReport{
			Node: node, Product: "Redis", Version: "7.4.1", Uptime: 24 * time.Hour,
			RTT: time.Millisecond, ClockBound: 500 * time.Microsecond,
		}
	}
	r := Report{
		Nodes: []NodeReport{
			good("n0"),
			{Node: "n1", RTT: time.Millisecond, ClockOffset: -5 * time.Second, ClockBound: 500 * time.Microsecond},
			{Node: "n2"},
			good("n3"),
		},
		Findings: []Finding{
			{Node: "n0", Check: "reachable", Text: "it answers"},
			unknown("version"), unknown("role"), unknown("cluster"), unknown("eviction"), unknown("memory"), unknown("persistence"),
			{
				Node: "n1", Check: "clock", Verdict: Warning,
				Text:   "its clock is 5s behind this client's and 5s behind the median of all, give or take 500µs",
				Advice: "Synchronise the clock of its machine (NTP, slewing rather than stepping), while no locks are held",
			},
			unknown("same-server"),
			{
				Node: "n2", Check: "reachable", Verdict: Unfit, Text: "it does not answer: refused",
				Advice: "Look whether it runs, and whether address, network, password and TLS are right",
			},
			{
				Check: "node-count", Verdict: Warning, Text: "4 nodes tolerate no more failures than 3",
				Advice: "Use three or five nodes that fail independently",
			},
		},
	}
	assert.Equal(t, `verdict: unfit
n0: Redis 7.4.1, up 24h0m0s, round trip 1ms, clock +0s ± 500µs
n1: round trip 1ms, clock -5s ± 500µs
  unknown version, role, cluster, eviction, memory, persistence, same-server: "INFO: NOPERM\r\nno". Grant the right +info, or look at the server's settings by other means.
  warning clock: its clock is 5s behind this client's and 5s behind the median of all, give or take 500µs. Synchronise the clock of its machine (NTP, slewing rather than stepping), while no locks are held.
n2:
  unfit reachable: it does not answer: refused. Look whether it runs, and whether address, network, password and TLS are right.
n3: Redis 7.4.1, up 24h0m0s, round trip 1ms, clock +0s ± 500µs
all nodes:
  warning node-count: 4 nodes tolerate no more failures than 3. Use three or five nodes that fail independently.
`, r.String())
	assert.Equal(t, OK, Report{}.Verdict())
	assert.Equal(t, "Verdict(9)", Verdict(9).String())
	assert.True(t, OK < Unknown && Unknown < Warning && Warning < Unfit)
}
