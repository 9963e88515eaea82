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
// together have too many of them. A turn without a lock says nothing, and is an error.
func (t *turn) complete() error {
	t.lock, t.both = newSpread(t.timed.lock), newSpread(t.timed.both)
	t.timed = samples{}
	if t.ops == 0 {
		return errors.Join(errors.New("no lock succeeded"), t.err)
	}
	return nil
}

// A figure is one of the things that are measured in every turn.
type figure struct {
	name   string
	format string
	of     func(turn) float64
}

// figures are all that a table of turns has.
var figures = []figure{
	{"op/s", "%.0f", turn.rate},
	{"lock p50 µs", "%.0f", func(t turn) float64 { return micros(t.lock.p50) }},
	{"lock p99 µs", "%.0f", func(t turn) float64 { return micros(t.lock.p99) }},
	{"lock+unlock p50 µs", "%.0f", func(t turn) float64 { return micros(t.both.p50) }},
	{"lock+unlock p99 µs", "%.0f", func(t turn) float64 { return micros(t.both.p99) }},
	{"client CPU µs/op", "%.1f", func(t turn) float64 { return t.perOp(micros(t.client)) }},
	{"servers' CPU µs/op", "%.1f", func(t turn) float64 { return t.perOp(micros(t.servers.cpu)) }},
	{"allocs/op", "%.1f", func(t turn) float64 { return t.perOp(float64(t.allocs)) }},
	{"B/op", "%.0f", func(t turn) float64 { return t.perOp(float64(t.size)) }},
	{"commands/read", "%.1f", turn.perRead},
}

// comparedFigures are those that a table of ratios has: how large and how full requests are is no merit.
var comparedFigures = figures[:len(figures)-2]

func (t turn) rate() float64           { return float64(t.ops) / t.took.Seconds() }
func (t turn) perOp(f float64) float64 { return f / float64(max(t.ops, 1)) }

// perRead is how many commands the servers found in each read, the mean over the nodes.
func (t turn) perRead() float64 {
	return float64(t.servers.commands) / float64(max(t.servers.reads, 1))
}
