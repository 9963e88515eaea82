package main

import (
	"fmt"
	"slices"

	"github.com/seed6c881748/redlock/bench/plot"
)

// A sweepPoint is what the clients did in their turns with one number of goroutines.
type sweepPoint struct {
	goroutines int
	turns      [][]turn // by client and round
}

// reportSweep keeps for the document what was printed for each number of goroutines.
func reportSweep(s settings, out *section, clients []client, points []sweepPoint) {
	costs := newTable(fmt.Sprintf("Lock+unlock that succeeded, %d rounds of %v. CPU and allocations are medians of the rounds", s.rounds, s.time),
		"goroutines", "client", "op/s best", "op/s median", "client CPU µs/op", "servers' CPU µs/op", "allocations/op", "failed")
	for _, p := range points {
		for i, c := range clients {
			turns := p.turns[i]
			var failed int64
			for _, t := range turns {
				failed += t.failed
			}
			rates := each(turns, turn.rate)
			costs.add(fmt.Sprint(p.goroutines), c.name, fmt.Sprintf("%.0f", slices.Max(rates)), fmt.Sprintf("%.0f", median(rates)),
				number(median(each(turns, turn.clientCPU)), "%.1f"), number(median(each(turns, turn.serverCPU)), "%.1f"),
				fmt.Sprintf("%.0f", median(each(turns, turn.objects))), fmt.Sprint(failed))
		}
	}
	out.keep(costs)
	if len(clients) < 2 {
		return
	}
	compared := newTable(fmt.Sprintf("What %s has, divided by what its peer has: medians of the rounds' ratios. Of op/s more is better, of costs less", clients[0].name),
		"goroutines", "peer", "op/s", "op/s of the best rounds", "client CPU/op", "servers' CPU/op", "allocations/op")
	for _, p := range points {
		for i := 1; i < len(clients); i++ {
			ours, theirs := p.turns[0], p.turns[i]
			of := func(f func(turn) float64) string {
				return number(median(ratios(each(ours, f), each(theirs, f))), "%.2f")
			}
			compared.add(fmt.Sprint(p.goroutines), clients[i].name, of(turn.rate),
				ratio(slices.Max(each(ours, turn.rate)), slices.Max(each(theirs, turn.rate))),
				of(turn.clientCPU), of(turn.serverCPU), of(turn.objects))
		}
	}
	out.keep(compared)
}

// throughputChart has a line for each client.
func throughputChart(s settings, clients []client, points []sweepPoint) plot.Chart {
	ordered := slices.SortedFunc(slices.Values(points), func(a, b sweepPoint) int { return a.goroutines - b.goroutines })
	chart := plot.Lines{
		Title: fmt.Sprintf("Lock+unlock per second on %d nodes", s.nodes),
		Note:  "Median of the rounds; more is better",
		X:     plot.Axis{Label: "goroutines", Log: true},
	}
	var all []float64
	for i, c := range clients {
		line := plot.Line{Name: c.name, Style: styleOf(c.name)}
		for _, p := range ordered {
			line.X = append(line.X, float64(p.goroutines))
			line.Y = append(line.Y, median(each(p.turns[i], turn.rate)))
		}
		all = append(all, line.Y...)
		chart.Series = append(chart.Series, line)
	}
	chart.Y = axisFor("throughput", "op/s", all)
	return chart
}

// latencyChart has a row for each client.
func latencyChart(s settings, clients []client, stretches [][]stretch) plot.Chart {
	chart := plot.Dots{
		Title: fmt.Sprintf("Latency of one caller on %d nodes", s.nodes),
		Note:  "Median of the rounds; less is better",
	}
	for i, f := range latencyFigures {
		// The two percentiles of one operation have one colour.
		chart.Series = append(chart.Series, plot.Figure{Name: f.name, Style: plot.Style{Hue: i / 2, Marker: i}})
	}
	var all []float64
	for i, c := range clients {
		row := plot.Row{Name: c.name, Values: map[string]float64{}}
		for _, f := range latencyFigures {
			row.Values[f.name] = median(each(stretches[i], f.of))
			all = append(all, row.Values[f.name])
		}
		chart.Rows = append(chart.Rows, row)
	}
	chart.X = axisFor("latency", "µs", all)
	return chart
}
