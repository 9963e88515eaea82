package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/bench/plot"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/tables"
)

// A fault is a way for a node to fail, with its cure.
type fault struct {
	name   string
	short  string
	cause  func(*testcluster.Node) error
	cure   func(*testcluster.Node) error
	cureBy string
}

var faults = []fault{
	{"stopped with SIGSTOP", "stopped", (*testcluster.Node).Hang, (*testcluster.Node).Resume, "SIGCONT"},
	{"killed", "killed", (*testcluster.Node).Stop, restartEmpty, "a restarted server answers"},
}

// degradedCallers is the number of callers whose latency is shown over time.
const degradedCallers = 8

// curedBy says what ends each of the faults.
func curedBy() string {
	cures := make([]string, len(faults))
	for i, f := range faults {
		cures[i] = f.cureBy
	}
	return strings.Join(cures, ", or ")
}

func restartEmpty(n *testcluster.Node) error { return n.Restart(false) }

// degraded measures redlock before, during and after the loss of as many nodes
// as its quorum can do without.
func degraded(s settings, out *section) error {
	lost := (s.nodes - 1) / 2
	if lost == 0 {
		return errors.New("degraded: with so few nodes none may fail; see -nodes")
	}
	d := degradation{
		phases: tables.New(fmt.Sprintf("Lock+unlock while %d of %d nodes fail. The phases: %v without a fault; from the instant before the fault, %v; "+
			"the same without its first %v", lost, s.nodes, s.faultTime, s.settle+s.faultTime, s.settle),
			"the nodes are", "callers", "phase", "op/s", "p50 µs", "p99 µs", "max µs", "p50 / healthy", "p99 / healthy", "failed"),
		back: tables.New(fmt.Sprintf("From the cure until all %d nodes vote again", s.nodes), "the nodes are", "callers", "ms after "+curedBy()),
	}
	for i, f := range faults {
		for _, callers := range []int{1, degradedCallers} {
			seen, struck, err := d.measure(s, f, lost, callers)
			if err != nil {
				return fmt.Errorf("%d nodes %s: %w", lost, f.name, err)
			}
			if callers == degradedCallers {
				d.lines = append(d.lines, timeline(f.short, i, seen, struck, s)...)
			}
		}
	}
	if err := errors.Join(out.table(d.phases), out.table(d.back)); err != nil {
		return err
	}
	return out.plot("degraded", "Percentiles of the latency before and after a minority of the nodes fails", degradedChart(lost, s, d.lines))
}

// degradedChart has lines over time.
func degradedChart(lost int, s settings, series []plot.Line) plot.Chart {
	return plot.Lines{
		Title: fmt.Sprintf("%d of %d nodes fail", lost, s.nodes),
		Note: fmt.Sprintf("Lock+unlock of %d callers in steps of %v; less is better.\n"+
			"Half of the calls take at most p50, 99 of 100 at most p99.\n"+
			"The failed nodes are stopped (SIGSTOP) or killed.", degradedCallers, timelineStep(s)),
		X:      plot.Axis{Label: "time after the fault (s)"},
		Y:      plot.Axis{Label: "latency (µs)", Log: true},
		Series: series,
		Event:  &plot.Event{At: 0, Name: "the nodes fail"},
	}
}

// A degradation is what was measured of all faults.
type degradation struct {
	phases, back *tables.Table
	lines        []plot.Line
}

// measure measures one fault with new servers and a new Redlock. It returns what was
// observed, and when the fault struck.
func (d *degradation) measure(s settings, f fault, lost, callers int) (seen []observation, struck time.Time, err error) {
	cluster, err := testcluster.StartServers(s.nodes)
	if err != nil {
		return nil, struck, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	r, err := libraries.OpenRedlock(cluster.Addrs())
	if err != nil {
		return nil, struck, err
	}
	defer func() { _ = r.Close(context.Background()) }()
	if _, err = untilAllVote(r, s); err != nil { // The first connections.
		return nil, struck, err
	}
	victims := cluster.Nodes[s.nodes-lost:]

	group := startCrew(ours("redlock", r, s.ttl), callers, "degraded:", false, func() {})
	// However the measurement ends, the callers must before the Redlock does.
	defer group.end()
	time.Sleep(min(s.faultTime/4, time.Second)) // Warms up.
	healthyFrom := time.Now()
	time.Sleep(s.faultTime)
	struck = time.Now()
	for _, n := range victims {
		if err = f.cause(n); err != nil {
			return nil, struck, err
		}
	}
	faulty := time.Now()
	time.Sleep(s.settle + s.faultTime)
	ended := time.Now()
	seen = group.end()

	c := strconv.Itoa(callers)
	healthy := newPhase(seen, healthyFrom, struck)
	for _, p := range []struct {
		name string
		phase
	}{
		{"healthy", healthy},
		{"degraded, with the first " + s.settle.String(), newPhase(seen, struck, ended)},
		{"degraded, without", newPhase(seen, faulty.Add(s.settle), ended)},
	} {
		d.phases.Add(append([]string{f.name, c, p.name}, p.cells(healthy)...)...)
	}

	for _, n := range victims {
		if err = f.cure(n); err != nil {
			return nil, struck, err
		}
	}
	took, err := untilAllVote(r, s)
	d.back.Add(f.name, c, fmt.Sprintf("%.0f", micros(took)/1000))
	return seen, struck, err
}

// untilAllVote locks until every node has granted the same lock and has told so
// to this client, and returns how long that took.
func untilAllVote(r *redlock.Redlock, s settings) (time.Duration, error) {
	const patience = 30 * time.Second
	ctx := context.Background()
	start := time.Now()
	for i := 0; ; i++ {
		all, err := allVote(ctx, r, "vote:"+strconv.Itoa(i), s)
		switch took := time.Since(start); {
		case all:
			return took, nil
		case took > patience:
			return took, fmt.Errorf("not all nodes vote after %v: %w", patience, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// allVote locks a new key and asks every node for its holder. The question
// follows the lock request on the same connection, and so sees its outcome.
func allVote(ctx context.Context, r *redlock.Redlock, key string, s settings) (bool, error) {
	lock, err := r.TryLock(ctx, []string{key}, s.ttl)
	if err != nil {
		return false, err
	}
	in, err := r.Inspect(ctx, key)
	if err = errors.Join(err, lock.Unlock(ctx)); err != nil {
		return false, err
	}
	for _, n := range in.Nodes {
		if n.Err != nil {
			return false, n.Err
		}
		if n.Holder == "" || n.Holder != in.Holder {
			return false, fmt.Errorf("%s has not granted the lock", n.Node)
		}
	}
	return true, nil
}

// cells returns the figures of a phase, and what they are of those without a fault.
func (p phase) cells(healthy phase) []string {
	cells := []string{fmt.Sprintf("%.0f", float64(len(p.took))/p.length.Seconds())}
	for _, q := range []int{50, 99, 100} {
		cells = append(cells, number(micros(percentile(p.took, q)), "%.0f"))
	}
	for _, q := range []int{50, 99} {
		cells = append(cells, ratio(micros(percentile(p.took, q)), micros(percentile(healthy.took, q))))
	}
	return append(cells, strconv.Itoa(p.failed+p.left))
}
