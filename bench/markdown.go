package main

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"unicode/utf8"
)

// textWidth is the length of the lines in documents.
const textWidth = 120

// markdown returns the section as it stands in the document: the plots, the tables and
// notes, and what all this was measured with.
func (s *section) markdown(measuredWith string) string {
	var b strings.Builder
	for _, p := range s.plots {
		b.WriteString(p.markdown() + "\n")
	}
	for _, t := range s.texts {
		if t.table == nil {
			b.WriteString(wrap(t.note) + "\n\n")
			continue
		}
		b.WriteString(wrap(sentence(t.table.title)) + "\n\n" + t.table.markdown() + "\n")
	}
	b.WriteString(wrap("Measured with: " + measuredWith))
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

// markdown returns the rows as a table. Columns of figures are aligned to the right.
func (t *table) markdown() string {
	var b strings.Builder
	columns := len(t.rows[0])
	line := func(cells []string) {
		for i := range columns {
			cell := ""
			if i < len(cells) {
				cell = strings.ReplaceAll(grouped(cells[i]), "|", `\|`)
			}
			b.WriteString("| " + cell + " ")
		}
		b.WriteString("|\n")
	}
	line(t.rows[0])
	for i := range columns {
		b.WriteString(map[bool]string{true: "|---:", false: "|---"}[t.isOfFigures(i)])
	}
	b.WriteString("|\n")
	for _, row := range t.rows[1:] {
		line(row)
	}
	return b.String()
}

var (
	figureRE = regexp.MustCompile(`^([-−+]?[0-9].*|-)?$`)
	wholeRE  = regexp.MustCompile(`^[0-9]{4,}(\.[0-9]+)?$`)
)

func (t *table) isOfFigures(column int) bool {
	for _, row := range t.rows[1:] {
		if column < len(row) && !figureRE.MatchString(row[column]) {
			return false
		}
	}
	return true
}

// grouped sets the thousands of a cell that is a number apart, by spaces at which no line
// is broken.
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

// wrap breaks a text into lines of textWidth characters at most.
func wrap(text string) string {
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
