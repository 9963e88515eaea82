package judge

import (
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/proof/history"
)

// internalKeys is in the names of the keys that are no locks, behind the prefix, and in no other. They live longer, and
// block nothing.
const internalKeys = "__redlock__:"

// keysLeft looks at what each node had left in the end.
func keysLeft(r *run, f *findings) {
	for i := range r.events {
		e := &r.events[i]
		if e.Kind != history.Keys || e.Node == nil {
			continue
		}
		f.facts++
		left := slices.DeleteFunc(slices.Clone(e.Keys), func(k string) bool { return strings.Contains(k, internalKeys) })
		if len(left) > 0 {
			f.violation(place{from: e.At, to: e.At}, "node %d had %d keys left: %q %s", *e.Node, len(left), left, e.Detail)
		}
	}
}
