package judge

// owners looks at each refusal by a node that said whose lock is in the way, where that lock is known.
func owners(r *run, f *findings) {
	of := make(map[string]*lock)
	for _, l := range r.locks {
		if h := l.acquired.end.Holder; h != "" {
			of[h] = l
		}
	}
	for _, e := range r.events {
		for _, v := range e.Votes {
			l := of[v.Holder]
			if l == nil {
				continue // Also where its attempt has failed, or its holder has died before it could tell.
			}
			f.facts++
			if v.Owner != l.client || max(v.At, e.At) < l.acquired.begin.At {
				p := place{from: min(e.At, l.acquired.begin.At), to: max(e.At, l.acquired.begin.At), resource: l.resources[0], clients: []string{l.client, e.Client}}
				f.violation(p, "node %d told %s at %s that %q has %s", v.Node, e.Client, at(e.At), v.Owner, l)
			}
		}
	}
}
