package main

import (
	"errors"
	"slices"

	"github.com/seed6c881748/redlock/bench/plot"
)

// styles are those of the libraries, the same in all plots. Clients of one driver share
// its colour. All others have grey.
var styles = map[string]plot.Style{
	"redlock":                  {Hue: 0, Marker: 0, Dash: 0},
	"redsync":                  {Hue: 1, Marker: 1, Dash: 1},
	"redsync-redigo":           {Hue: 1, Marker: 1, Dash: 1},
	"redsync-redigo-failfast":  {Hue: 1, Marker: 2, Dash: 2},
	"redsync-goredis":          {Hue: 3, Marker: 1, Dash: 1},
	"redsync-goredis-failfast": {Hue: 3, Marker: 2, Dash: 2},
	"redsync-rueidis":          {Hue: 4, Marker: 1, Dash: 1},
	"redsync-rueidis-failfast": {Hue: 4, Marker: 2, Dash: 2},
	"redislock":                {Hue: 2, Marker: 3, Dash: 3},
	"rueidislock":              {Hue: 6, Marker: 4, Dash: 4},
	"etcd":                     {Hue: 2, Marker: 5, Dash: 3},
	"floor":                    {Hue: 5, Marker: 2, Dash: 0},
}

func styleOf(client string) plot.Style {
	if s, ok := styles[client]; ok {
		return s
	}
	return plot.Style{Hue: 5, Marker: 1, Dash: 4}
}

// noteOf is the note of a plot that compares the clients.
func noteOf(better string) string {
	return "Median of the rounds; " + better + " is better.\nfloor: not a lock, only the requests that one needs."
}

// areWide reports whether the values are so far apart that a linear axis would show the
// small ones as nothing.
func areWide(values []float64) bool {
	return len(values) > 0 && slices.Min(values) > 0 && slices.Max(values)/slices.Min(values) > 20
}

// axisFor returns an axis for the values: from 0 where that shows all of them.
func axisFor(label string, values []float64) plot.Axis {
	wide := areWide(values)
	return plot.Axis{Label: label, Log: wide, Zero: !wide}
}

// drawContention draws how fast and how fairly a lock goes from hand to hand.
func drawContention(out *section, rates, shares []plot.Row) error {
	var series []plot.Figure
	for _, client := range contendClients {
		series = append(series, plot.Figure{Name: client, Style: styleOf(client)})
	}
	var all []float64
	for _, r := range rates {
		for _, client := range contendClients {
			all = append(all, r.Values[client])
		}
	}
	const rows = "Processes × goroutines, and how long each holds the lock."
	return errors.Join(
		out.plot("contention", "Hand-overs per second in each contest", plot.Dots{
			Title: "Hand-overs of one lock per second", Note: rows + "\nMore is better.",
			X: axisFor("hand-overs per second", all), Series: series, Rows: rates,
		}),
		out.plot("fairness", "Jain's index of fairness in each contest", plot.Dots{
			Title: "Fairness between the goroutines", Note: rows + "\n1 means equal shares.",
			X: plot.Axis{Label: "Jain's index", Zero: true}, Series: series, Rows: shares,
		}),
	)
}

// overloadChart has a line for each client.
func overloadChart(s settings, crowds map[string][]crowd) plot.Chart {
	chart := &lines{plot.Lines{
		Title: "More callers than the nodes can serve",
		Note:  "Successful lock+unlock, median of the rounds; more is better.",
		X:     plot.Axis{Label: "callers", Log: true},
		Y:     plot.Axis{Label: "throughput (op/s)", Zero: true},
	}}
	for _, name := range overloadClients {
		for _, n := range s.callers {
			if rows := crowds[crowdName(name, n)]; len(rows) > 0 {
				chart.add(name, float64(n), median(each(rows, crowdRate)))
			}
		}
	}
	return chart.chart()
}
