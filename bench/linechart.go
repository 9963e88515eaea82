package main

import (
	"slices"

	"github.com/seed6c881748/redlock/bench/plot"
)

// lines is a chart of throughput with a line for each client.
type lines struct {
	title, x string
	points   map[string]*plot.Line
	order    []string
}

func newLines(title, x string) *lines {
	return &lines{title: title, x: x, points: map[string]*plot.Line{}}
}

// add adds a point to the line of each client.
func (l *lines) add(x float64, r results) {
	for _, name := range r.names {
		line := l.points[name]
		if line == nil {
			line = &plot.Line{Name: name, Style: styleOf(name)}
			l.points[name], l.order = line, append(l.order, name)
		}
		i, _ := slices.BinarySearch(line.X, x)
		line.X = slices.Insert(line.X, i, x)
		line.Y = slices.Insert(line.Y, i, median(r.of(name, turn.rate)))
	}
}

// xs returns where the lines have points.
func (l *lines) xs() (all []float64) {
	for _, line := range l.points {
		all = append(all, line.X...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (l *lines) chart() plot.Chart {
	chart := plot.Lines{
		Title: l.title, Note: noteOf("more"),
		X: plot.Axis{Label: l.x, Log: l.x == "goroutines", Ticks: l.xs()},
	}
	var all []float64
	for _, name := range l.order {
		chart.Series = append(chart.Series, *l.points[name])
		all = append(all, l.points[name].Y...)
	}
	chart.Y = axisFor("throughput (op/s)", all)
	return chart
}
