package main

import (
	"slices"

	"github.com/seed6c881748/redlock/bench/plot"
)

// lines is a chart with a line for each client.
type lines struct{ plot.Lines }

// throughputLines is a chart of the throughput of all clients.
func throughputLines(title, x string) *lines {
	return &lines{plot.Lines{Title: title, Note: noteOf("more"), X: plot.Axis{Label: x, Log: x == "goroutines"}}}
}

// add adds a point to the line of a client.
func (l *lines) add(client string, x, y float64) {
	i := slices.IndexFunc(l.Series, func(line plot.Line) bool { return line.Name == client })
	if i < 0 {
		i = len(l.Series)
		l.Series = append(l.Series, plot.Line{Name: client, Style: styleOf(client)})
	}
	line := &l.Series[i]
	at, _ := slices.BinarySearch(line.X, x)
	line.X, line.Y = slices.Insert(line.X, at, x), slices.Insert(line.Y, at, y)
}

// addRates adds the throughput of each client.
func (l *lines) addRates(x int, r results) {
	for _, name := range r.names {
		l.add(name, float64(x), median(r.of(name, turn.rate)))
	}
}

// chart returns the chart, with ticks where there are points.
func (l *lines) chart() plot.Chart {
	var ys []float64
	for _, line := range l.Series {
		l.X.Ticks = append(l.X.Ticks, line.X...)
		ys = append(ys, line.Y...)
	}
	slices.Sort(l.X.Ticks)
	l.X.Ticks = slices.Compact(l.X.Ticks)
	if l.Y.Label == "" {
		l.Y = axisFor("throughput (op/s)", ys)
	}
	return l.Lines
}
