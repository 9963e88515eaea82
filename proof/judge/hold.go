package judge

import "github.com/seed6c881748/redlock/proof/history"

// holdLimits looks at locks that are kept alive with a max hold or a stop time. By then, the context of the hold has to
// have ended, or the lock to be unlocked. Max hold counts from the start of the attempt, which nobody else knows.
func holdLimits(r *run, f *findings) {
	for _, c := range r.inOrder {
		l := r.locks[c.id]
		if l == nil || !l.kept || c.begin.MaxHold == 0 && (c.begin.StopTime == 0 || !l.exact) {
			continue
		}
		limit := l.until - c.begin.StopTime
		if c.begin.MaxHold > 0 {
			limit = min(limit, l.got+c.begin.MaxHold)
		}
		due := r.excused(l.client, max(limit, l.keptFrom), r.slack(l.client, limit))
		ended, known := l.heldTo(r)
		if !known && ended <= due {
			continue
		}
		f.facts++
		if ended > due {
			p := place{from: limit, to: ended, resource: l.resources[0], clients: []string{l.client}, since: c.begin.At}
			f.violation(p, "the hold of %s had to end by %s (max hold %s, stop time %s before %s), and had not at %s", l, at(limit),
				span(0, c.begin.MaxHold), span(0, c.begin.StopTime), at(l.until), at(ended))
		}
	}
}

// wanted looks at each call that began to wait for a lock whose holder, in the same process, had asked to be told. Of calls
// in other processes a holder hears at its next extension, if at all. Those that poll may be of another Redlock.
func wanted(r *run, f *findings) {
	asked, told := make(map[*lock]int64), make(map[*lock]int64)
	for _, e := range r.events {
		if l := r.lockOf(e); e.Kind == history.Wanted && l != nil {
			if e.OK {
				told[l] = e.At
			} else {
				asked[l] = e.At
			}
		}
	}
	for _, c := range r.inOrder {
		if c.wait == 0 || c.begin.Polls {
			continue
		}
		for _, res := range c.begin.Resources {
			for _, l := range r.byResource[res] {
				if from, asks := asked[l]; !asks || l.client != c.client || l.acquired.begin.Polls || from > c.wait || l.over <= c.wait {
					continue
				}
				due := r.excused(l.client, c.wait, r.slack(l.client, c.wait))
				switch t, ok := told[l]; {
				case ok && t <= due:
					f.facts++
				case min(l.over, c.returned(r), r.lived(l.client)) > due:
					f.facts++
					p := place{from: c.wait, to: due, resource: res, clients: []string{l.client}, since: l.acquired.begin.At}
					f.violation(p, "%s waited from %s on, and the holder of %s had not been told at %s", c, at(c.wait), l, at(due))
				}
			}
		}
	}
}
