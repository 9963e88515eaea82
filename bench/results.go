package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/seed6c881748/redlock/test/tables"
)

// addTurns adds a row for each entrant: what it is, and the medians of its figures.
func (r results) addTurns(t *tables.Table, lead ...string) {
	for i, name := range r.names {
		row := slices.Concat(lead, []string{name})
		var ops, failed, dials int64
		for _, t := range r.turns[i] {
			ops, failed, dials = ops+t.ops, failed+t.failed, dials+t.servers.dials
		}
		for _, f := range figures {
			row = append(row, number(median(each(r.turns[i], f.of)), f.format))
		}
		t.Add(append(row, fmt.Sprint(dials), fmt.Sprintf("%.2f", 100*float64(failed)/float64(ops+failed)))...)
	}
}

// newTurnsTable returns a table for addTurns, with columns for what leads a row.
func newTurnsTable(title string, lead ...string) *tables.Table {
	return tables.New(title, slices.Concat(lead, []string{"client"}, namesOf(figures), []string{"connections made", "failed %"})...)
}

// addRatios adds a row for each entrant but the first, which it is compared with.
func (r results) addRatios(t *tables.Table, lead ...string) {
	for _, name := range r.names[1:] {
		t.Add(slices.Concat(lead, []string{name}, r.divided(r.names[0], name))...)
	}
}

// divided returns the compared figures of one entrant, divided by those of another one.
func (r results) divided(one, other string) (cells []string) {
	for _, f := range comparedFigures {
		cells = append(cells, number(median(r.ratios(one, other, f.of)), "%.2f"))
	}
	return cells
}

// newRatiosTable returns a table for addRatios.
func newRatiosTable(first string, lead ...string) *tables.Table {
	return tables.New("Figures of \""+first+"\", divided by those of its peer: medians of the rounds' ratios. "+
		"More op/s is better; less is better for everything else", slices.Concat(lead, []string{"peer"}, namesOf(comparedFigures))...)
}

// addMultiples adds a row for each entrant that has a base: its figures, divided by those
// of the base.
func (r results) addMultiples(t *tables.Table, bases map[string]string) {
	for _, name := range r.names {
		if base, ok := bases[name]; ok {
			t.Add(append([]string{name, base}, r.divided(name, base)...)...)
		}
	}
}

// newMultiplesTable returns a table for addMultiples.
func newMultiplesTable() *tables.Table {
	return tables.New("Medians of the rounds' ratios", append([]string{"this", "divided by"}, namesOf(comparedFigures)...)...)
}

func namesOf(figures []figure) (names []string) {
	for _, f := range figures {
		names = append(names, f.name)
	}
	return names
}

// A report gathers the tables of several measurements with the same entrants.
type report struct {
	lead          []string
	out           *section
	turns, ratios *tables.Table
}

func newReport(out *section, title, first string, lead ...string) *report {
	return &report{lead, out, newTurnsTable(title, lead...), newRatiosTable(first, lead...)}
}

// add adds a measurement, and prints it at once: the rest may take minutes.
func (p *report) add(r results, lead ...string) error {
	r.addTurns(p.turns, lead...)
	r.addRatios(p.ratios, lead...)
	now := newTurnsTable(p.turns.Title, p.lead...)
	r.addTurns(now, lead...)
	compared := newRatiosTable(r.names[0], p.lead...)
	r.addRatios(compared, lead...)
	return errors.Join(p.out.aside(now), p.out.aside(compared))
}

// end keeps all of it for the document.
func (p *report) end() {
	p.out.keep(p.turns)
	p.out.keep(p.ratios)
}
