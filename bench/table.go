package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// A table is a title, columns and rows of cells.
type table struct {
	title string
	rows  [][]string // the first one has the names of the columns
}

func newTable(title string, columns ...string) *table {
	return &table{title: title, rows: [][]string{columns}}
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// print prints the table with aligned columns. One without rows is left out.
func (t *table) print(w io.Writer) error {
	if len(t.rows) == 1 {
		return nil
	}
	if _, err := fmt.Fprintf(w, "\n%s\n\n", t.title); err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	for _, row := range t.rows {
		if _, err := fmt.Fprintf(tw, "%s\t\n", strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return tw.Flush()
}
