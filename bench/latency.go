package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/seed6c881748/redlock/bench/plot"
)

// maxAllocations is how many objects a lock and its unlock may cost.
const maxAllocations = 24

// latency measures a single caller, with every library on each number of nodes.
func latency(s settings, out *section) error {
	report := &report{out: out, setting: "N"}
	report.title = fmt.Sprintf("One caller, %s: medians of %d rounds, in each of which every client has %d blocks of at most %d locks and %v",
		s.keys(), s.rounds, s.blocks, s.blockSize, blockTime)
	reached := newAims()
	var chart plot.Chart
	err := onEach(s, out, 1, s.blocksOf(), s.blocks, func(n int, r results) error {
		aloneAims(reached, n, r)
		if n == s.nodes || chart == nil {
			chart = latencyChart(n, r)
		}
		return report.add(r, n)
	})
	if err != nil {
		return err
	}
	report.end()
	return errors.Join(reached.report(out), out.plot("latency", "Percentiles of the latency of one caller, a row per library", chart))
}

// aloneAims are those of a single caller.
func aloneAims(a *aims, n int, r results) {
	lock := func(limit float64, peer string) {
		a.atMost(limit, fmt.Sprintf("lock p50 / %s, one caller, N = %d", peer, n), r.ratios("redlock", peer, turn.lockP50))
	}
	switch n {
	case 1:
		lock(1.05, "redislock")
		lock(1.05, "redsync-redigo")
		lock(1.05, "redsync-redigo-failfast")
	case 3, 5:
		lock(1, "redsync-redigo-failfast")
	}
	if n <= 5 {
		// Whole objects, as testing.AllocsPerRun counts them: each block has some for its
		// goroutine, and for what the garbage collector took from a sync.Pool before it.
		whole := each(r.of("redlock", turn.objects), math.Floor)
		a.atMost(maxAllocations, fmt.Sprintf("allocations of lock+unlock, one caller, N = %d", n), whole)
	}
}

// latencyChart has a row for each client: the percentiles of lock alone. Those of unlock
// are alike, and in the table.
func latencyChart(nodes int, r results) plot.Chart {
	var rows []plot.Row
	var all []float64
	for i, name := range r.names {
		p50, p99 := median(each(r.turns[i], turn.lockP50)), median(each(r.turns[i], turn.lockP99))
		rows = append(rows, plot.Row{Name: name, Values: map[string]float64{"p50": p50, "p99": p99}})
		all = append(all, p50, p99)
	}
	return plot.Dots{
		Title:  fmt.Sprintf("Latency of a lock, one caller on %d nodes", nodes),
		Note:   noteOf("less"),
		X:      axisFor("latency (µs)", all),
		Series: []plot.Figure{{Name: "p50", Style: plot.Style{}}, {Name: "p99", Style: plot.Style{Hue: 1, Marker: 1}}},
		Rows:   rows,
		Joined: true,
	}
}
