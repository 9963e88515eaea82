package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gonum.org/v1/plot/plotter"

	"github.com/seed6c881748/redlock/test/tables"
)

// A measurement is what clients did in one setting.
type measurement struct {
	setting string
	results
}

// A report gathers measurements that differ in one setting.
type report struct {
	title, setting string
	all            []measurement
}

// write reports all figures, and those of the first client divided by those of the others.
func (r *report) write(out *section) error {
	turns := tables.New(r.title, slices.Concat([]string{r.setting, "client"}, namesOf(figures),
		[]string{"connections made", "failed %"})...)
	ratios := tables.New("Figures of the first client, divided by those of its peer: medians of the rounds' ratios. "+
		"More op/s is better; less is better for everything else",
		append([]string{r.setting, "peer"}, namesOf(comparedFigures)...)...)
	for _, m := range r.all {
		for i, name := range m.names {
			turns.Add(append([]string{m.setting, name}, cellsOf(m.turns[i])...)...)
			if i == 0 {
				continue
			}
			row := []string{m.setting, name}
			for _, f := range comparedFigures {
				row = append(row, number(median(m.ratios(0, i, f.of)), "%.2f"))
			}
			ratios.Add(row...)
		}
	}
	return errors.Join(out.table(turns), out.table(ratios))
}

// cellsOf returns the medians of a client's figures.
func cellsOf(turns []turn) (cells []string) {
	var ops, failed, dials int64
	for _, t := range turns {
		ops, failed, dials = ops+t.ops, failed+t.failed, dials+t.servers.dials
	}
	for _, f := range figures {
		cells = append(cells, number(median(each(turns, f.of)), f.format))
	}
	return append(cells, fmt.Sprint(dials), fmt.Sprintf("%.2f", 100*float64(failed)/float64(ops+failed)))
}

// chart has a line for each client: its throughput against the setting, which is a number.
func (r *report) chart(title string) chart {
	c := chart{title: title, x: r.setting}
	for _, m := range r.all {
		x, _ := strconv.ParseFloat(m.setting, 64)
		for i, name := range m.names {
			c.add(name, plotter.XY{X: x, Y: median(each(m.turns[i], turn.rate))})
		}
	}
	return c
}

func namesOf(figures []figure) (names []string) {
	for _, f := range figures {
		names = append(names, f.name)
	}
	return names
}
