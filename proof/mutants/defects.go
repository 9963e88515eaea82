package main

import (
	"fmt"
	"strings"

	"github.com/seed6c881748/redlock/test/tables"
)

// defectsHead begins docs/generated/defects.md.
const defectsHead = `# Known defects

These are the defects of this library that touched a promise and are known. All are fixed, and none was in a release.
Each has a mutant that reverts the fix, and tests that catch it: ` + "`make mutants RUN=fixes/clean-up-first`" + ` shows
that for one of them. The mutant's text in [proof/mutants/areas](../../proof/mutants/areas) is the shortest
description of a defect; this page is written from there. [reliability.md](../reliability.md#track-record) says what
follows from it.

`

// kinds of defects, in the order of the page.
var kinds = []string{
	"Two holders", "A success reported by mistake", "A loss reported by mistake, or too late",
	"Keys, calls and connections that stayed", "Load",
}

// defectsPage is the page of those whose fixes the mutants revert.
func defectsPage(all []*mutant) (string, error) {
	t := tables.New("", "what happened", "promise", "found by", "mutant")
	rows := 0
	for _, kind := range kinds {
		t.Group(kind)
		for _, m := range all {
			if d := m.about; d["kind"] == kind && d["defect"] != "" && d["promise"] != "" && d["found"] != "" {
				t.Add(d["defect"], d["promise"], d["found"], "`"+m.Name+"`")
				rows++
			}
		}
	}
	for _, m := range all {
		if m.about["kind"] != "" || m.about["defect"] != "" {
			rows--
		}
	}
	if rows != 0 {
		return "", fmt.Errorf("%d defects lack a key: one has defect, promise, found, and a kind: %s", -rows, strings.Join(kinds, "; "))
	}
	return defectsHead + t.Markdown(), nil
}
