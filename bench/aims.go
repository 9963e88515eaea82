package main

import (
	"fmt"
	"slices"

	"github.com/seed6c881748/redlock/test/tables"
)

// aims are figures that redlock is to reach, each with what was measured. They are printed, and not for the document.
type aims struct{ table *tables.Table }

func newAims() *aims {
	return &aims{tables.New("Aims, and the medians of the rounds' figures", "figure", "aim", "measured", "lowest", "highest", "reached")}
}

// atMost adds an aim that is not to be exceeded. Without values there was nothing to
// measure, since a library was left out.
func (a *aims) atMost(limit float64, what string, values []float64) {
	a.add(what, fmt.Sprintf("at most %.2f", limit), values, median(values) <= limit)
}

func (a *aims) atLeast(limit float64, what string, values []float64) {
	a.add(what, fmt.Sprintf("at least %.2f", limit), values, median(values) >= limit)
}

func (a *aims) add(what, aim string, values []float64, reached bool) {
	if len(values) == 0 {
		return
	}
	answer := "no"
	if reached {
		answer = "yes"
	}
	a.table.Add(what, aim, fmt.Sprintf("%.3f", median(values)), fmt.Sprintf("%.3f", slices.Min(values)), fmt.Sprintf("%.3f", slices.Max(values)), answer)
}

// report prints the aims. They are for those who work on the library, not for the document.
func (a *aims) report(out *section) error { return out.aside(a.table) }
