package main

import (
	"errors"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/seed6c881748/redlock/test/tables"
)

// A section is what one part reports. The part hands over its tables and plots as
// soon as it has them. They are printed at once, and kept for the document, which they
// go into when the part has succeeded.
type section struct {
	name   string
	out    io.Writer
	tables int               // that are kept
	shown  []string          // plots as they stand in the document
	texts  []string          // tables
	files  map[string][]byte // of the plots
}

// table prints a table, and keeps it for the document. One without rows is left out.
func (s *section) table(t *tables.Table) error {
	if len(t.Rows()) > 0 {
		s.tables++
		s.texts = append(s.texts, t.Markdown())
	}
	return t.Print(s.out)
}

// plot draws a chart twice, for light and for dark pages, into files of this name.
func (s *section) plot(name string, c chart) error {
	const markdown = `<picture>
  <source media="(prefers-color-scheme: dark)" srcset="%s/%s">
  <img src="%[1]s/%[3]s" alt="%[4]s">
</picture>
`
	onLight, err := c.svg(light)
	onDark, e := c.svg(dark)
	if err = errors.Join(err, e); err != nil {
		return fmt.Errorf("plot %s: %w", name, err)
	}
	lightFile, darkFile := name+"-light.svg", name+"-dark.svg"
	if s.files == nil {
		s.files = make(map[string][]byte)
	}
	s.files[lightFile], s.files[darkFile] = onLight, onDark
	alt := html.EscapeString(c.title + ", a line per client")
	s.shown = append(s.shown, fmt.Sprintf(markdown, plotFolder, darkFile, lightFile, alt))
	return nil
}

// markdown returns the section as it stands in the document: the plots, the tables, and what
// all this was measured with.
func (s *section) markdown(measuredWith string) string {
	var b strings.Builder
	for _, text := range append(s.shown, s.texts...) {
		b.WriteString(text + "\n")
	}
	return b.String() + tables.Wrap("Measured with: "+measuredWith) + "\n"
}
