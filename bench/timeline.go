package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/bench/plot"
)

// timelinePercentiles are shown over time, each with dashes of its own.
var timelinePercentiles = []int{50, 99}

// timelineStep is the time that one point of a timeline stands for.
func timelineStep(s settings) time.Duration {
	return max((s.settle+2*s.faultTime)/50, 10*time.Millisecond).Round(10 * time.Millisecond)
}

// timeline returns the percentiles of the latency over time, counted from the fault. A
// step in which no operation ended has no point; what took long counts when it ended.
func timeline(fault string, hue int, seen []observation, struck time.Time, s settings) (lines []plot.Line) {
	step := timelineStep(s)
	from := struck.Add(-s.faultTime)
	var took [][]time.Duration
	for _, o := range seen {
		if o.failed || o.left || o.end().Before(from) {
			continue
		}
		i := int(o.end().Sub(from) / step)
		for len(took) <= i {
			took = append(took, nil)
		}
		took[i] = append(took[i], o.took)
	}
	for i, p := range timelinePercentiles {
		line := plot.Line{Name: fmt.Sprintf("%s, p%d", fault, p), Style: plot.Style{Hue: hue, Marker: 2*hue + i, Dash: i}}
		for at, ds := range took {
			if len(ds) == 0 {
				continue
			}
			slices.Sort(ds)
			line.X = append(line.X, from.Add(time.Duration(at)*step+step/2).Sub(struck).Seconds())
			line.Y = append(line.Y, micros(percentile(ds, p)))
		}
		lines = append(lines, line)
	}
	return lines
}
