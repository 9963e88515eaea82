package main

import (
	"fmt"
	"slices"
)

// A figure is one of those that must not grow.
type figure struct {
	name, unit string
	of         func(sample) float64
	room       float64 // It may differ by that much, and by a tenth, from one part of a run to another.
}

var figures = []figure{
	{"memory", "MB", func(s sample) float64 { return s.Resident }, 4},
	{"heap", "MB", func(s sample) float64 { return s.Heap }, 1},
	{"goroutines", "", func(s sample) float64 { return s.Goroutines }, 10},
	{"connections", "", func(s sample) float64 { return s.Connections }, 3},
	{"server-keys", "", func(s sample) float64 { return s.Keys }, 60},
	{"server-memory", "MB", func(s sample) float64 { return s.ServerMem }, 1},
}

// A verdict says whether a figure has grown from the second fifth of the run to the last one, by their medians. The
// first fifth is for warming up. A line through all points would be tilted by one fault.
type verdict struct {
	Figure string  `json:"figure"`
	Unit   string  `json:"unit"`
	From   float64 `json:"from"`
	To     float64 `json:"to"`
	Flat   bool    `json:"flat"`
}

// String is a line for people.
func (v verdict) String() string {
	text := "flat "
	if !v.Flat {
		text = "GROWN"
	}
	return fmt.Sprintf("%s  %-14s %8.1f → %8.1f %s", text, v.Figure, v.From, v.To, v.Unit)
}

// judge compares the parts of a run. A figure that is nowhere known is not flat: nothing was looked at.
func judge(samples []sample) (verdicts []verdict, flat bool) {
	flat = true
	for _, f := range figures {
		fifth := len(samples) / 5
		v := verdict{Figure: f.name, Unit: f.unit}
		from, ok := median(f, samples[fifth:2*fifth])
		to, okToo := median(f, samples[len(samples)-fifth:])
		v.From, v.To = from, to
		v.Flat = ok && okToo && to <= from*1.1+f.room
		verdicts, flat = append(verdicts, v), flat && v.Flat
	}
	return verdicts, flat
}

// median is that of the samples which have the figure.
func median(f figure, samples []sample) (float64, bool) {
	var all []float64
	for _, s := range samples {
		if v := f.of(s); v > 0 {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return all[len(all)/2], true
}
