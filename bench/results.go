package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/seed6c881748/redlock/test/tables"
)

// A measurement is what entrants did in one setting, whose cells lead their rows.
type measurement struct {
	setting []string
	results
}

// turnsTable returns a table with a row for each entrant: what it is, and the medians of its figures. settings name
// the columns that lead it.
func turnsTable(title string, settings []string, all ...measurement) *tables.Table {
	t := tables.New(title, slices.Concat(settings, []string{"client"}, namesOf(figures), []string{"connections made", "failed %"})...)
	for _, m := range all {
		for i, name := range m.names {
			row := slices.Concat(m.setting, []string{name})
			var ops, failed, dials int64
			for _, t := range m.turns[i] {
				ops, failed, dials = ops+t.ops, failed+t.failed, dials+t.servers.dials
			}
			for _, f := range figures {
				row = append(row, number(median(each(m.turns[i], f.of)), f.format))
			}
			t.Add(append(row, fmt.Sprint(dials), fmt.Sprintf("%.2f", 100*float64(failed)/float64(ops+failed)))...)
		}
	}
	return t
}

// ratiosTable returns a table with a row for each entrant but the first, which it is compared with.
func ratiosTable(settings []string, all ...measurement) *tables.Table {
	t := tables.New("Figures of \""+all[0].names[0]+"\", divided by those of its peer: medians of the rounds' ratios. "+
		"More op/s is better; less is better for everything else", slices.Concat(settings, []string{"peer"}, namesOf(comparedFigures))...)
	for _, m := range all {
		for _, name := range m.names[1:] {
			t.Add(slices.Concat(m.setting, []string{name}, m.divided(m.names[0], name))...)
		}
	}
	return t
}

// multiplesTable returns a table with a row for each entrant that has a base: its figures, divided by those of the base.
func (r results) multiplesTable() *tables.Table {
	t := tables.New("Medians of the rounds' ratios", append([]string{"this", "divided by"}, namesOf(comparedFigures)...)...)
	for _, name := range r.names {
		if base, ok := r.bases[name]; ok {
			t.Add(append([]string{name, base}, r.divided(name, base)...)...)
		}
	}
	return t
}

// divided returns the compared figures of one entrant, divided by those of another one.
func (r results) divided(one, other string) (cells []string) {
	for _, f := range comparedFigures {
		cells = append(cells, number(median(r.ratios(one, other, f.of)), "%.2f"))
	}
	return cells
}

func namesOf(figures []figure) (names []string) {
	for _, f := range figures {
		names = append(names, f.name)
	}
	return names
}

// A report gathers measurements with the same entrants, which differ in one setting.
type report struct {
	out     *section
	title   string
	setting string
	all     []measurement
}

// add adds a measurement, and prints it at once: the rest may take minutes.
func (p *report) add(r results, setting int) error {
	m := measurement{[]string{fmt.Sprint(setting)}, r}
	p.all = append(p.all, m)
	return errors.Join(p.out.aside(turnsTable(p.title, []string{p.setting}, m)), p.out.aside(ratiosTable([]string{p.setting}, m)))
}

// end keeps all of it for the document.
func (p *report) end() {
	if len(p.all) > 0 {
		p.out.keep(turnsTable(p.title, []string{p.setting}, p.all...))
		p.out.keep(ratiosTable([]string{p.setting}, p.all...))
	}
}
