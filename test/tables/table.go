// Package tables writes tables and notes for terminals and documents, into the places that documents keep for them.
package tables

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"
)

// A Table is a title, which may be "", columns and rows of cells.
type Table struct {
	Title string

	rows [][]string // The first one has the names of the columns.
}

// New returns a table without rows.
func New(title string, columns ...string) *Table {
	return &Table{Title: title, rows: [][]string{columns}}
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// Group adds a row that names those below it.
func (t *Table) Group(name string) { t.Add("**" + name + "**") }

// Rows are those that were added.
func (t *Table) Rows() [][]string { return t.rows[1:] }

// Print prints the table with aligned columns. One without rows is left out.
func (t *Table) Print(w io.Writer) error {
	if len(t.Rows()) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(w, "\n%s\n\n", t.Title); err != nil {
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

// Markdown returns the title, if there is one, and the rows. Columns of figures are aligned to the right.
func (t *Table) Markdown() string {
	var b strings.Builder
	if t.Title != "" {
		b.WriteString(Wrap(sentence(t.Title)) + "\n\n")
	}
	columns := len(t.rows[0])
	line := func(cells []string) {
		for i := range columns {
			cell := ""
			if i < len(cells) && cells[i] != "" {
				cell = strings.ReplaceAll(grouped(cells[i]), "|", `\|`) + " "
			}
			b.WriteString("| " + cell)
		}
		b.WriteString("|\n")
	}
	line(t.rows[0])
	for i := range columns {
		b.WriteString("|---")
		if t.isOfFigures(i) {
			b.WriteString(":")
		}
	}
	b.WriteString("|\n")
	for _, row := range t.Rows() {
		line(row)
	}
	return b.String()
}

var (
	figureRE = regexp.MustCompile(`^([-−+]?[0-9][^,]*|-)?$`)
	wholeRE  = regexp.MustCompile(`^[0-9]{4,}(\.[0-9]+)?$`)
)

func (t *Table) isOfFigures(column int) bool {
	any := false
	for _, row := range t.Rows() {
		if column < len(row) && !figureRE.MatchString(row[column]) {
			return false
		}
		any = any || column < len(row)
	}
	return any
}

// grouped sets the thousands of a cell that is a number apart, by spaces at which no line is broken.
func grouped(cell string) string {
	if !wholeRE.MatchString(cell) {
		return cell
	}
	whole, fraction, found := strings.Cut(cell, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "\u00a0" + whole[i:]
	}
	if found {
		whole += "." + fraction
	}
	return whole
}

// sentence ends a title with a period.
func sentence(title string) string {
	if strings.HasSuffix(title, ".") || strings.HasSuffix(title, ":") {
		return title
	}
	return title + "."
}
