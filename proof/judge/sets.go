package judge

import "github.com/seed6c881748/redlock/proof/history"

// otherSets looks at what clients were told of the nodes of others. All in a run have the same ones, or, while the set
// grows, those of one step beside it, whose quorums meet.
func otherSets(r *run, f *findings) {
	for _, e := range r.events {
		switch {
		case e.Kind == history.Up:
			f.facts++
		case e.Kind == history.Sets && !e.OK:
			f.violation(place{from: e.At, to: e.At, clients: []string{e.Client}}, "%s was told: %s", e.Client, e.Err)
		}
	}
}
