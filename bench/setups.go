package main

import (
	"fmt"
	"strings"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/test/tables"
)

// listLibraries is the part that tells how the libraries are set up.
func listLibraries(s settings, out *section) error {
	versions := moduleVersions()
	t := tables.New(fmt.Sprintf("One attempt for each lock, ttl %v", s.ttl), "client", "built with", "set up")
	for _, l := range append(pick(s.only), libraries.Fenced) {
		var built []string
		for _, m := range l.Modules {
			built = append(built, strings.TrimSpace(m+" "+versions[m]))
		}
		t.Add(l.Name, strings.Join(built, ", "), l.Setup)
	}
	return out.table(t)
}
