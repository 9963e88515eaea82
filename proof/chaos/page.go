package main

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/proof/chaos/plan"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
	"github.com/seed6c881748/redlock/proof/timeline"
	"github.com/seed6c881748/redlock/test/tables"
)

// writePage writes the page of a history.
func writePage(name string, events []history.Event, v judge.Verdict) error {
	var b bytes.Buffer
	if err := timeline.Write(&b, events, v); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// rulesHead begins docs/generated/rules.md.
const rulesHead = `# What chaos checks

Each rule of the judge checks one promise. A check that cannot fail is none: ` + "`make chaos BROKEN=`*name*" + ` breaks one
thing on purpose, and the rule beside it must fail. ` + "`make chaos-rules`" + ` writes this page.
[reliability.md](../reliability.md#what-chaos-does) says more.

`

// rulesPage is the page of all rules, and of what must break each.
func rulesPage() string {
	t := tables.New("", "rule", "promise", "what is broken on purpose")
	for _, rule := range judge.Judge(nil).Rules {
		var broken []string
		for _, name := range slices.Sorted(maps.Keys(plan.AllBroken)) {
			if plan.AllBroken[name].Rule == rule.Rule {
				broken = append(broken, "`"+name+"`: "+plan.AllBroken[name].What)
			}
		}
		t.Add("["+rule.Rule+"](../../"+rule.Page+")", rule.Promise, strings.Join(broken, ". "))
	}
	return rulesHead + t.Markdown()
}
