package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/bench/plot"
	"github.com/seed6c881748/redlock/proof/history"
)

var errGrown = errors.New("something has grown")

// A figure is one of those that must not grow in a long run, of all processes or of all servers together.
type figure struct {
	name, unit string
	room       float64 // It may differ by that much, and by a tenth, from one part of a run to another.
}

var figures = []figure{
	{"memory", "MB", 16},
	{"heap", "MB", 4},
	{"goroutines", "", 60},
	{"connections", "", 12},
	{"server-keys", "", 60},
	{"server-memory", "MB", 1},
}

// A series is a figure over time. A sample that some have not told is left out.
type series struct{ at, value []float64 } // In minutes.

// seriesOf adds up what all who have a figure have told at the same time.
func seriesOf(name string, events []history.Event) (s series) {
	type sum struct{ at, value, tellers float64 }
	sums, tellers := make(map[int64]sum), 0.0
	for _, e := range events {
		if v, ok := e.Figures[name]; ok {
			now := sums[e.Value]
			now = sum{max(now.at, time.Duration(e.At).Minutes()), now.value + v, now.tellers + 1}
			sums[e.Value], tellers = now, max(tellers, now.tellers)
		}
	}
	var all []sum
	for _, one := range sums {
		if one.tellers == tellers {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b sum) int { return int(1000 * (a.at - b.at)) })
	for _, one := range all {
		s.at, s.value = append(s.at, one.at), append(s.value, one.value)
	}
	return s
}

// grown says how the figure has changed from the second fifth of the run to the last one, by their medians, and whether it
// has grown: also if it is not known. The first fifth is for warming up. A line through all points would be tilted by one fault.
func (f figure) grown(s series) (text string, grown bool) {
	fifth := len(s.value) / 5
	if fifth == 0 {
		return "GROWN  " + f.name + ": nobody knows", true
	}
	from, to := median(s.value[fifth:2*fifth]), median(s.value[len(s.value)-fifth:])
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

// concludeSoak says what has grown in a long run, and leaves a plot of each figure, for light and dark pages.
func concludeSoak(folder string, events []history.Event) error {
	locks := seriesOf("locks", events)
	if len(locks.value) == 0 {
		return errIdle
	}
	fmt.Printf("%.0f locks\n", locks.value[len(locks.value)-1])
	any := false
	for _, f := range figures {
		s := seriesOf(f.name, events)
		text, grown := f.grown(s)
		any = any || grown
		fmt.Println(text)
		if err := f.draw(folder, s); err != nil {
			return err
		}
	}
	fmt.Println("plots:  ", folder)
	if any {
		return errGrown
	}
	return nil
}

func (f figure) draw(folder string, s series) error {
	line := plot.Line{Name: strings.ReplaceAll(f.name, "-", " "), X: s.at, Y: s.value}
	label := line.Name
	if f.unit != "" {
		label += " (" + f.unit + ")"
	}
	chart := plot.Lines{
		Title: label, X: plot.Axis{Label: "time (min)", Zero: true}, Y: plot.Axis{Label: label, Zero: true}, Series: []plot.Line{line},
	}
	for name, theme := range map[string]plot.Theme{f.name + ".svg": plot.Light, f.name + "-dark.svg": plot.Dark} {
		picture, err := chart.SVG(theme)
		if err != nil {
			return err
		}
		if err = os.WriteFile(filepath.Join(folder, name), picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}
