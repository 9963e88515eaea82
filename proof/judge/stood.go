package judge

import (
	"cmp"
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

// A period is a part of the run.
type period struct{ from, to int64 }

// stood are the times in which a client's process did not run because of these faults, in order and apart.
func (r *run) stood(client string, names ...string) []period {
	var all []period
	for _, f := range r.faults {
		if slices.Contains(names, f.name) && f.hits(client) {
			all = append(all, period{f.from, f.to})
		}
	}
	slices.SortFunc(all, func(a, b period) int { return cmp.Compare(a.from, b.from) })
	var apart []period
	for _, p := range all {
		if n := len(apart); n > 0 && p.from <= apart[n-1].to {
			apart[n-1].to = max(apart[n-1].to, p.to)
		} else {
			apart = append(apart, p)
		}
	}
	return apart
}

// excused is when a process has run for so long since from: the time in which it stood still does not count, and no other
// time is excused.
func (r *run) excused(client string, from, long int64) (due int64) {
	due = from + long
	for _, p := range r.stood(client, history.Freeze, history.Stall) {
		if p.to > from && p.from <= due {
			due += p.to - max(p.from, from)
		}
	}
	return due
}

// Stalls are the times in which processes did not run although nobody had frozen them. The more of them there are, the more
// is excused that was late, and the less a run shows.
type Stalls struct {
	Count int   `json:"count"`
	Time  int64 `json:"time"`  // Of all processes together, in ns.
	Lived int64 `json:"lived"` // How long all processes lived.
}

// stalls adds up those of all processes.
func (r *run) stalls() (s Stalls) {
	for _, e := range r.events {
		if e.Kind != history.Up {
			continue
		}
		life := period{e.At, r.end}
		if end, ended := r.down[e.Client]; ended {
			life.to = end
		}
		frozen := r.stood(e.Client, history.Freeze)
		s.Lived += life.to - life.from
		s.Time += life.common(r.stood(e.Client, history.Freeze, history.Stall)) - life.common(frozen)
		for _, p := range r.stood(e.Client, history.Stall) {
			if life.common([]period{p}) > 0 && p.common(frozen) == 0 { // Who was frozen finds that it has stalled, too.
				s.Count++
			}
		}
	}
	return s
}

// common is how much of a period these are.
func (p period) common(others []period) (sum int64) {
	for _, o := range others {
		sum += max(0, min(p.to, o.to)-max(p.from, o.from))
	}
	return sum
}
