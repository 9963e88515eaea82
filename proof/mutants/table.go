package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The tables of docs/generated/mutants.md stand between markers, which name the section of the mutants.
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

// defectsHead begins docs/generated/defects.md.
const defectsHead = `# Known defects

These are the defects of this library that touched a promise and are known. All are fixed, and none was in a release.
Each has a mutant that reverts the fix, and tests that catch it: ` + "`make mutants RUN=fixes/clean-up-first`" + ` shows
that for one of them. The patch in [proof/mutants/patches](../../proof/mutants/patches) is the shortest description of a
defect; this page is written from their headers. [reliability.md](../reliability.md#track-record) says what follows from
it.

| what happened | promise | found by | mutant |
|---|---|---|---|
`

// kinds of defects, in the order of the page.
var kinds = []string{
	"Two holders", "A success reported by mistake", "A loss reported by mistake, or too late",
	"Keys, calls and connections that stayed", "Load",
}

// defects is the page of those whose fixes the mutants revert.
func defects(all []*mutant) (string, error) {
	var b strings.Builder
	b.WriteString(defectsHead)
	for _, kind := range kinds {
		fmt.Fprintf(&b, "| **%s** | | | |\n", kind)
		for _, m := range all {
			if m.Kind == kind {
				fmt.Fprintf(&b, "| %s | %s | %s | `%s` |\n", m.Defect, m.Promise, m.Found, m.Name)
			}
		}
	}
	for _, m := range all {
		if (m.Defect != "" || m.Kind != "") && (!slices.Contains(kinds, m.Kind) || m.Defect == "" || m.Promise == "" || m.Found == "") {
			return "", fmt.Errorf("%s: a defect has Defect, Promise, Found, and a Kind: %s", m.Name, strings.Join(kinds, "; "))
		}
	}
	return b.String(), nil
}

// writeTables writes the pages in a folder.
func writeTables(folder string, all []*mutant) error {
	path := filepath.Join(folder, "mutants.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	written, err := tables(string(text), all)
	if err != nil {
		return err
	}
	page, err := defects(all)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(written), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "defects.md"), []byte(page), 0o600)
}
