// Package tables writes tables and notes for terminals and documents, into the places that documents keep for them.
package tables

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
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

// A Place is where a document keeps what a command writes: between two marks, which are not seen where it is shown.
//
//	<!-- bench:latency -->
//	<!-- /bench -->
type Place struct{ Kind, Name string }

func (p Place) begin() string { return "<!-- " + p.Kind + ":" + p.Name + " -->" }
func (p Place) end() string   { return "<!-- /" + p.Kind + " -->" }

// Places are all of that kind in a document, in their order.
func Places(document, kind string) (all []Place) {
	for _, m := range regexp.MustCompile(`<!-- `+regexp.QuoteMeta(kind)+`:(.+?) -->`).FindAllStringSubmatch(document, -1) {
		all = append(all, Place{kind, m[1]})
	}
	return all
}

// Fill returns the document with that content in the place, instead of what was there.
func (p Place) Fill(document, content string) (string, error) {
	before, rest, found := strings.Cut(document, p.begin()+"\n")
	switch {
	case !found:
		return "", fmt.Errorf("no line %q", p.begin())
	case strings.Contains(rest, p.begin()):
		return "", fmt.Errorf("two lines %q", p.begin())
	}
	old, after, found := strings.Cut(rest, p.end())
	if !found || len(Places(old, p.Kind)) > 0 {
		return "", fmt.Errorf("no line %q ends %q", p.end(), p.begin())
	}
	return before + p.begin() + "\n\n" + strings.TrimSpace(content) + "\n\n" + p.end() + after, nil
}

// Replace writes a file as a whole or not at all.
func Replace(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// textWidth is the length of the lines in documents.
const textWidth = 120

// Wrap breaks a text into lines of 120 characters at most.
func Wrap(text string) string {
	var b strings.Builder
	length := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case length == 0:
		case length+1+n > textWidth:
			b.WriteString("\n")
			length = 0
		default:
			b.WriteString(" ")
			length++
		}
		b.WriteString(word)
		length += n
	}
	return b.String()
}
