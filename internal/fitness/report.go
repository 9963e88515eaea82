package fitness

import "time"

// A Verdict says how fit something is. The larger, the worse.
type Verdict int

// The verdicts; package redlock has the same ones, with what they mean.
const (
	OK Verdict = iota
	Unknown
	Warning
	Unfit
)

// A Finding is what one check has found.
type Finding struct {
	Node         string // empty: about all nodes together
	Check        string // the name of the check
	Verdict      Verdict
	Text, Advice string // what was found; what to do, empty if there is nothing
}

// A NodeReport is what was measured of one node. What could not be read is its zero value.
type NodeReport struct {
	Node    string
	Product string
	Version string
	Uptime  time.Duration
	RTT     time.Duration

	ClockOffset, ClockBound time.Duration
}

// A Report is what was found: of each node in the order given, and then of all together.
type Report struct {
	Nodes    []NodeReport
	Findings []Finding
}
