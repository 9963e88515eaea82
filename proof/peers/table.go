package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
	"github.com/seed6c881748/redlock/test/tables"
)

// Figures are what one library did under some faults.
type Figures struct {
	Library, Faults string
	Counts          map[string]int // By the names of columns.
}

// A column is what is counted of a library: how often a rule was broken, or something else.
type column struct{ name, rule string }

var columns = []column{
	{"locks", ""},
	{"overlaps", "overlap"},
	{"locks whose keys had ended", "support"},
	{"keys left", "keys left"},
	{"calls over 1 s", "bounds"},
}

// figuresOf counts what a history tells.
func figuresOf(library, faults string, events []history.Event) Figures {
	v := judge.Judge(events)
	f := Figures{library, faults, map[string]int{"locks": v.Locks.All}}
	for _, c := range columns {
		f.Counts[c.name] += v.Rule(c.rule).Violations
	}
	return f
}

// short is what happened, without what did not.
func (f Figures) short() string {
	var parts []string
	for _, c := range columns {
		if n := f.Counts[c.name]; n > 0 {
			parts = append(parts, fmt.Sprint(n, " ", c.name))
		}
	}
	return strings.Join(parts, ", ")
}

// sum adds up the runs of a library under some faults, or under all.
func sum(all []Figures, library, faults string) Figures {
	of := Figures{library, faults, make(map[string]int)}
	for _, f := range all {
		if f.Library == library && (faults == "" || f.Faults == faults) {
			for name, n := range f.Counts {
				of.Counts[name] += n
			}
		}
	}
	return of
}

// write leaves two tables, on out and in a file: each library's sums, and what happened under which faults.
func write(out io.Writer, f flags, all []Figures) error {
	var names []string
	head := []string{"library"}
	for _, c := range columns {
		head = append(head, c.name)
	}
	sums := tables.New("", head...)
	for _, l := range peers {
		if !slices.ContainsFunc(all, func(f Figures) bool { return f.Library == l.name }) {
			continue
		}
		row := []string{l.name}
		for _, c := range columns {
			row = append(row, fmt.Sprint(sum(all, l.name, "").Counts[c.name]))
		}
		sums.Add(row...)
		names = append(names, l.name)
	}
	where := tables.New("", append([]string{"faults"}, names...)...)
	for _, g := range groups {
		row := []string{g.name}
		for _, name := range names {
			row = append(row, sum(all, name, g.name).short())
		}
		where.Add(row...)
	}
	text := fmt.Sprintf("%s, %s, %s, seed %d\n\n%s\n%s", history.Commit(), time.Now().UTC().Format(time.DateOnly), history.Server(), f.seed,
		sums.Markdown(), where.Markdown())
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.out, "peers.md"), []byte(text), 0o644)
}
