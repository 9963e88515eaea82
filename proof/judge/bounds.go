package judge

// bounds looks at every call that has a bound. Time in which the process stood still does not count.
func bounds(r *run, f *findings) {
	for _, c := range r.inOrder {
		if c.begin.Bound == 0 {
			continue
		}
		due := c.begin.Bound
		if c.end != nil && c.end.At <= due {
			f.facts++
			continue
		}
		due += r.slack(c.client, due)
		due = r.excused(c.client, c.begin.At, due-c.begin.At)
		p := place{from: c.begin.At, to: c.returned(r), clients: []string{c.client}}
		if len(c.begin.Resources) > 0 {
			p.resource = c.begin.Resources[0]
		}
		if c.end != nil {
			f.facts++
			if c.end.At > due {
				f.violation(p, "%s had to return by %s, and returned at %s", c, at(due), at(c.end.At))
			}
			continue
		}
		if ended := r.lived(c.client); ended > due {
			f.facts++
			f.violation(p, "%s had to return by %s, and had not at %s", c, at(due), at(ended))
		}
	}
}
