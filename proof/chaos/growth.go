package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

var errGrown = errors.New("something has grown")

// A figure is one of those that must not grow in a long run, of all processes or of all servers together.
type figure struct {
	name, unit string
	room       float64 // It may differ by that much, and by a tenth, from one part of a run to another.
}

var figures = []figure{
	{"heap", "MB", 4},
	{"goroutines", "", 60},
	{"connections", "", 12},
	{"server-keys", "", 60},
}

// seriesOf is a figure over time: at each sample, the sum of all who have it. A sample that some have not told is left out.
func seriesOf(name string, events []history.Event) (series []float64) {
	type sum struct{ value, tellers float64 }
	sums, tellers := make(map[int64]sum), 0.0
	for _, e := range events {
		if v, ok := e.Figures[name]; ok {
			now := sums[e.Value]
			now = sum{now.value + v, now.tellers + 1}
			sums[e.Value], tellers = now, max(tellers, now.tellers)
		}
	}
	for _, tick := range slices.Sorted(maps.Keys(sums)) {
		if sums[tick].tellers == tellers {
			series = append(series, sums[tick].value)
		}
	}
	return series
}

// grown says how the figure has changed from the second fifth of the run to the last one, by their medians, and whether it
// has grown: also if it is not known. The first fifth is for warming up. A line through all points would be tilted by one fault.
func (f figure) grown(values []float64) (text string, grown bool) {
	fifth := len(values) / 5
	if fifth == 0 {
		return "GROWN  " + f.name + ": nobody knows", true
	}
	from, to := median(values[fifth:2*fifth]), median(values[len(values)-fifth:])
	text = "flat "
	if grown = to > from*1.1+f.room; grown {
		text = "GROWN"
	}
	return fmt.Sprintf("%s  %-14s %8.1f → %8.1f %s", text, f.name, from, to, f.unit), grown
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// concludeSoak says what has grown in a long run.
func concludeSoak(events []history.Event) error {
	locks := seriesOf("locks", events)
	if len(locks) == 0 {
		return errIdle
	}
	fmt.Printf("%.0f locks\n", locks[len(locks)-1])
	any := false
	for _, f := range figures {
		text, grown := f.grown(seriesOf(f.name, events))
		any = any || grown
		fmt.Println(text)
	}
	if any {
		return errGrown
	}
	return nil
}
