package main

import (
	"errors"
	"slices"
	"time"
)

// A turn is what one client did in one round.
type turn struct {
	ops, failed  int64
	err          error // the first failure
	took         time.Duration
	client       time.Duration // processor time of this process
	servers      load
	allocs, size uint64 // objects and bytes

	timed      samples // until the turn is complete
	lock, both spread
}

// A spread is what is kept of many latencies.
type spread struct{ p50, p99 time.Duration }

func newSpread(took []time.Duration) spread {
	slices.Sort(took)
	return spread{percentile(took, 50), percentile(took, 99)}
}

// add adds what the same client did later in the round.
func (t *turn) add(later turn) {
	t.ops, t.failed = t.ops+later.ops, t.failed+later.failed
	if t.err == nil {
		t.err = later.err
	}
	t.took, t.client = t.took+later.took, t.client+later.client
	t.servers = t.servers.plus(later.servers)
	t.allocs, t.size = t.allocs+later.allocs, t.size+later.size
	t.timed.lock = append(t.timed.lock, later.timed.lock...)
	t.timed.both = append(t.timed.both, later.timed.both...)
}

// complete keeps the percentiles of the latencies and drops the latencies: all turns
// together have too many of them.
func (t *turn) complete() {
	t.lock, t.both = newSpread(t.timed.lock), newSpread(t.timed.both)
	t.timed = samples{}
}

// check reports a turn that says nothing.
func (t turn) check() error {
	if t.ops == 0 {
		return errors.Join(errors.New("no lock succeeded"), t.err)
	}
	return nil
}

func (t turn) perOp(f float64) float64 { return f / float64(max(t.ops, 1)) }

func (t turn) rate() float64      { return float64(t.ops) / t.took.Seconds() }
func (t turn) clientCPU() float64 { return t.perOp(micros(t.client)) }
func (t turn) serverCPU() float64 { return t.perOp(micros(t.servers.cpu)) }
func (t turn) objects() float64   { return t.perOp(float64(t.allocs)) }
func (t turn) bytes() float64     { return t.perOp(float64(t.size)) }
func (t turn) lockP50() float64   { return micros(t.lock.p50) }
func (t turn) lockP99() float64   { return micros(t.lock.p99) }
func (t turn) bothP50() float64   { return micros(t.both.p50) }
func (t turn) bothP99() float64   { return micros(t.both.p99) }

// perRead is how many commands the servers found in each read, the mean over the nodes.
func (t turn) perRead() float64 {
	return float64(t.servers.commands) / float64(max(t.servers.reads, 1))
}

// A figure is one of the things that are measured in every turn.
type figure struct {
	name   string
	format string
	of     func(turn) float64
}

var (
	rateFigure      = figure{"op/s", "%.0f", turn.rate}
	lockP50Figure   = figure{"lock p50 µs", "%.0f", turn.lockP50}
	lockP99Figure   = figure{"lock p99 µs", "%.0f", turn.lockP99}
	bothP50Figure   = figure{"lock+unlock p50 µs", "%.0f", turn.bothP50}
	bothP99Figure   = figure{"lock+unlock p99 µs", "%.0f", turn.bothP99}
	clientCPUFigure = figure{"client CPU µs/op", "%.1f", turn.clientCPU}
	serverCPUFigure = figure{"servers' CPU µs/op", "%.1f", turn.serverCPU}
	objectsFigure   = figure{"allocs/op", "%.1f", turn.objects}
	bytesFigure     = figure{"B/op", "%.0f", turn.bytes}
	perReadFigure   = figure{"commands/read", "%.1f", turn.perRead}
)

// latencyFigures are those of one operation.
var latencyFigures = []figure{lockP50Figure, lockP99Figure, bothP50Figure, bothP99Figure}

// figures are all that a table of turns has.
var figures = slices.Concat([]figure{rateFigure}, latencyFigures,
	[]figure{clientCPUFigure, serverCPUFigure, objectsFigure, bytesFigure, perReadFigure})

// comparedFigures are those that a table of ratios has.
var comparedFigures = slices.Concat([]figure{rateFigure}, latencyFigures, []figure{clientCPUFigure, serverCPUFigure, objectsFigure})
