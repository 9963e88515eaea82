package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/test/tables"
)

// countMarker is where the document says how many mutants there are.
var countMarker = regexp.MustCompile(`(<!-- number of mutants -->)\d*(<!-- -->)`)

// page returns the document with its tables as the patches say: each in the place that names the section of its
// mutants. Each section with mutants must have its table.
func page(document string, all []*mutant) (string, error) {
	var wrong error
	sections := map[string][]*mutant{}
	for _, m := range all {
		sections[m.Section] = append(sections[m.Section], m)
	}
	for _, p := range tables.Places(document, "mutants") {
		if len(sections[p.Name]) == 0 {
			wrong = errors.Join(wrong, errors.New("no mutants of "+p.Name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		filled, err := tables.Place{Kind: "mutants", Name: name}.Fill(document, table(sections[name]))
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %w", sections[name][0].Name, err))
			continue
		}
		document = filled
	}
	return countMarker.ReplaceAllString(document, fmt.Sprintf("${1}%d${2}", len(all))), wrong
}

// table is the table of one section: first the mutants without a group, then the others by their groups.
func table(ms []*mutant) string {
	ms = slices.Clone(ms)
	slices.SortStableFunc(ms, func(a, b *mutant) int { return strings.Compare(a.Group, b.Group) })
	t := tables.New("", "mutant", "noticed by")
	group := ""
	for _, m := range ms {
		if m.Group != group {
			group = m.Group
			t.Group(group)
		}
		by := "nothing: " + m.Survives
		if m.Survives == "" {
			var names []string
			for _, t := range m.Tests {
				names = append(names, t.shown(m.Module)...)
			}
			by = strings.Join(names, ", ")
		}
		t.Add(m.What, by)
	}
	return t.Markdown()
}

// defectsHead begins docs/generated/defects.md.
const defectsHead = `# Known defects

These are the defects of this library that touched a promise and are known. All are fixed, and none was in a release.
Each has a mutant that reverts the fix, and tests that catch it: ` + "`make mutants RUN=fixes/clean-up-first`" + ` shows
that for one of them. The patch in [proof/mutants/patches](../../proof/mutants/patches) is the shortest description of a
defect; this page is written from their headers. [reliability.md](../reliability.md#track-record) says what follows from
it.

`

// kinds of defects, in the order of the page.
var kinds = []string{
	"Two holders", "A success reported by mistake", "A loss reported by mistake, or too late",
	"Keys, calls and connections that stayed", "Load",
}

// defects is the page of those whose fixes the mutants revert.
func defects(all []*mutant) (string, error) {
	t := tables.New("", "what happened", "promise", "found by", "mutant")
	for _, kind := range kinds {
		t.Group(kind)
		for _, m := range all {
			if m.Kind == kind {
				t.Add(m.Defect, m.Promise, m.Found, "`"+m.Name+"`")
			}
		}
	}
	for _, m := range all {
		if (m.Defect != "" || m.Kind != "") && (!slices.Contains(kinds, m.Kind) || m.Defect == "" || m.Promise == "" || m.Found == "") {
			return "", fmt.Errorf("%s: a defect has Defect, Promise, Found, and a Kind: %s", m.Name, strings.Join(kinds, "; "))
		}
	}
	return defectsHead + t.Markdown(), nil
}

// writeTables writes the pages in a folder.
func writeTables(folder string, all []*mutant) error {
	path := filepath.Join(folder, "mutants.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	written, err := page(string(text), all)
	found, wrong := defects(all)
	if err = errors.Join(err, wrong); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, []byte(written), 0o600), os.WriteFile(filepath.Join(folder, "defects.md"), []byte(found), 0o600))
}
