package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// The tables of docs/testing.md stand between markers, which name the section of the mutants.
var tableMarker = regexp.MustCompile(`(?s)(<!-- mutants: ([^\n]+) -->\n).*?(<!-- end of mutants -->)`)

// countMarker is where the document says how many mutants there are.
var countMarker = regexp.MustCompile(`(<!-- number of mutants -->)\d*(<!-- -->)`)

// tables returns the document with its tables as the patches say. Each section with mutants must have its table.
func tables(document string, all []*mutant) (string, error) {
	var missing []string
	sections := map[string][]*mutant{}
	for _, m := range all {
		sections[m.Section] = append(sections[m.Section], m)
	}
	document = tableMarker.ReplaceAllStringFunc(document, func(s string) string {
		match := tableMarker.FindStringSubmatch(s)
		ms := sections[match[2]]
		delete(sections, match[2])
		if len(ms) == 0 {
			missing = append(missing, "no mutants of "+match[2])
		}
		return match[1] + "\n" + table(ms) + "\n" + match[3]
	})
	for s, ms := range sections {
		missing = append(missing, fmt.Sprintf("no table for %q (%s)", s, ms[0].Name))
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return "", fmt.Errorf("the document has %s", strings.Join(missing, ", "))
	}
	return countMarker.ReplaceAllString(document, fmt.Sprintf("${1}%d${2}", len(all))), nil
}

// table is the table of one section: first the mutants without a group, then the others by their groups.
func table(ms []*mutant) string {
	ms = slices.Clone(ms)
	slices.SortStableFunc(ms, func(a, b *mutant) int { return strings.Compare(a.Group, b.Group) })
	var b strings.Builder
	b.WriteString("| mutant | noticed by |\n|---|---|\n")
	group := ""
	for _, m := range ms {
		if m.Group != group {
			group = m.Group
			fmt.Fprintf(&b, "| **%s** | |\n", group)
		}
		by := "nothing: " + m.Survives
		if m.Survives == "" {
			var names []string
			for _, t := range m.Tests {
				names = append(names, t.shown(m.Module)...)
			}
			by = strings.Join(names, ", ")
		}
		fmt.Fprintf(&b, "| %s | %s |\n", m.What, by)
	}
	return b.String()
}

func writeTables(path string, all []*mutant) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	written, err := tables(string(text), all)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(written), 0o600)
}
