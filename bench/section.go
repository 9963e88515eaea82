package main

import (
	"errors"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/seed6c881748/redlock/bench/plot"
	"github.com/seed6c881748/redlock/test/tables"
)

// A section is what one part reports. The part hands over its tables, notes and plots as
// soon as it has them. They are printed at once, and kept for the document, which they
// go into when the part has succeeded.
type section struct {
	name   string
	out    io.Writer
	tables int      // that are kept
	texts  []string // tables and notes as they stand in the document, in their order
	plots  []picture
}

// A picture is a plot that has been drawn.
type picture struct {
	name string            // of its files, without -light.svg and -dark.svg
	alt  string            // what it shows
	svg  map[string][]byte // by the names of their files
}

// table prints a table, and keeps it for the document. One without rows is left out.
func (s *section) table(t *tables.Table) error {
	s.keep(t)
	return t.Print(s.out)
}

// aside prints a table that is not for the document: details, which help to explain one run.
func (s *section) aside(t *tables.Table) error { return t.Print(s.out) }

// keep keeps a table for the document that is not printed: a summary of what was.
func (s *section) keep(t *tables.Table) {
	if len(t.Rows()) > 0 {
		s.tables++
		s.texts = append(s.texts, t.Markdown())
	}
}

// note prints a sentence about what was measured, and keeps it for the document.
func (s *section) note(format string, args ...any) error {
	n := fmt.Sprintf(format, args...)
	s.texts = append(s.texts, tables.Wrap(n)+"\n")
	_, err := fmt.Fprintf(s.out, "\n%s\n", n)
	return err
}

// plot draws a chart, for files of this name. The part must have declared it.
func (s *section) plot(name, alt string, chart plot.Chart) error {
	light, err := chart.SVG(plot.Light)
	dark, e := chart.SVG(plot.Dark)
	if err = errors.Join(err, e); err != nil {
		return err
	}
	s.plots = append(s.plots, picture{name, alt, map[string][]byte{lightFile(name): light, darkFile(name): dark}})
	return nil
}

// A plot is drawn twice, for light and for dark pages.
func lightFile(plot string) string { return plot + "-light.svg" }
func darkFile(plot string) string  { return plot + "-dark.svg" }

// check reports what a part owes: a table, and the plots that it has declared.
func (s *section) check(declared []string) error {
	drawn := map[string]bool{}
	if s.tables == 0 {
		return fmt.Errorf("no table")
	}
	for _, p := range s.plots {
		if drawn[p.name] {
			return fmt.Errorf("plot %q: drawn twice", p.name)
		}
		drawn[p.name] = true
	}
	for _, name := range declared {
		if !drawn[name] {
			return fmt.Errorf("plot %q: not drawn", name)
		}
	}
	if len(drawn) > len(declared) {
		return fmt.Errorf("%d plots, of which %d are declared", len(drawn), len(declared))
	}
	return nil
}

// markdown returns the section as it stands in the document: the plots, the tables and
// notes, and what all this was measured with.
func (s *section) markdown(measuredWith string) string {
	var b strings.Builder
	for _, p := range s.plots {
		b.WriteString(p.markdown() + "\n")
	}
	for _, t := range s.texts {
		b.WriteString(t + "\n")
	}
	b.WriteString(tables.Wrap("Measured with: " + measuredWith))
	return b.String() + "\n"
}

// markdown shows the picture that goes with the page.
func (p picture) markdown() string {
	const text = `<picture>
  <source media="(prefers-color-scheme: dark)" srcset="%s/%s">
  <img src="%[1]s/%[3]s" alt="%[4]s">
</picture>
`
	return fmt.Sprintf(text, plotFolder, darkFile(p.name), lightFile(p.name), html.EscapeString(p.alt))
}
