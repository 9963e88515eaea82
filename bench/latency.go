package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/bench/plot"
)

// maxAllocations is how many objects a lock and its unlock may cost.
const maxAllocations = 24

// latency measures a single caller, with every library on each number of nodes.
func latency(s settings, out *section) error {
	report := newReport(out, fmt.Sprintf("One caller, %s: medians of %d rounds, in each of which every client has %d blocks of at most %d locks and %v",
		s.keys(), s.rounds, s.blocks, s.blockSize, blockTime), pick(s.only)[0].name, "N")
	reached := newAims()
	var chart plot.Chart
	err := onEach(s, out, 1, s.blocksOf(), s.blocks, func(n int, r results) error {
		aloneAims(reached, n, r)
		if n == s.nodes || chart == nil {
			chart = latencyChart(n, r)
		}
		return report.add(r, fmt.Sprint(n))
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
		a.atMost(maxAllocations, fmt.Sprintf("allocations of lock+unlock, one caller, N = %d", n), r.of("redlock", turn.objects))
	}
}

// latencyChart has a row for each client.
func latencyChart(nodes int, r results) plot.Chart {
	chart := plot.Dots{
		Title: fmt.Sprintf("Latency of one caller on %d nodes", nodes),
		Note:  "Median of the rounds; less is better",
	}
	for i, f := range latencyFigures {
		// The two percentiles of one operation have one colour.
		name := strings.TrimSuffix(f.name, " µs")
		chart.Series = append(chart.Series, plot.Figure{Name: name, Style: plot.Style{Hue: i / 2, Marker: i}})
	}
	var all []float64
	for i, name := range r.names {
		row := plot.Row{Name: name, Values: map[string]float64{}}
		for k, f := range latencyFigures {
			v := median(each(r.turns[i], f.of))
			row.Values[chart.Series[k].Name] = v
			all = append(all, v)
		}
		chart.Rows = append(chart.Rows, row)
	}
	chart.X = axisFor("latency", "µs", slices.Clip(all))
	return chart
}
