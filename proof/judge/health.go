package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// settling is how long clients may need for a node whose fault is over: what was on its way arrives late, and they connect
// again.
const settling = int64(time.Second)

// healthy reports whether a client could reach a quorum of nodes that vote, all the time, and servers ran.
func (r *run) healthy(client string, from, to int64) bool {
	sick := r.sick(client, from, to)
	return sick != nil && r.nodes(client)-len(sick) >= r.quorum(client) && !r.starved(from, to)
}

// sick are the nodes that a client may not have reached then, or that did not vote; nil if that may be so of all.
func (r *run) sick(client string, from, to int64) map[int]bool {
	sick := make(map[int]bool)
	for _, f := range r.faults {
		after := settling
		switch {
		case f.Harmless:
			continue
		case f.Abstains:
			after += r.header.LastMaxTTL
		}
		if f.from > to || f.to+after < from || f.client != "" && !f.hits(client) && !f.Everybody {
			continue
		}
		if f.node < 0 { // It is the client's own, or everybody's.
			return nil
		}
		if r.has(client, f.node) {
			sick[f.node] = true
		}
	}
	return sick
}

// starved reports whether a server without a fault answered late, also on the shortest way: then the machine is busy.
func (r *run) starved(from, to int64) bool {
	return slices.ContainsFunc(r.late, func(e *history.Event) bool {
		return e.From <= to && e.At >= from && !slices.ContainsFunc(r.faults, func(f fault) bool { return f.node == *e.Node && f.from <= e.At && f.to >= e.From })
	})
}

// disturbed reports whether any client had a fault of its own then. What its attempts have got on some nodes keeps others
// out, until it goes on or that expires.
func (r *run) disturbed(from, to int64) bool {
	return slices.ContainsFunc(r.faults, func(f fault) bool {
		return f.client != "" && f.name != history.Stall && f.from <= to && f.to+settling >= from
	})
}

// has reports whether a node is one of the client's.
func (r *run) has(client string, node int) bool {
	set := r.process(client).set
	return set == nil || slices.Contains(set, node)
}

// nodes is how many a client has.
func (r *run) nodes(client string) int {
	if set := r.process(client).set; set != nil {
		return len(set)
	}
	return r.header.Nodes
}

func (r *run) quorum(client string) int { return r.nodes(client)/2 + 1 }

// ran reports whether a process ran all the time, but for moments.
func (r *run) ran(client string, from, to int64) bool {
	return r.excused(client, from, to-from) <= to+r.header.SignalSlack
}

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

// lived is until when a process surely did: one that is killed may be dead for a while before somebody says so.
func (r *run) lived(client string) int64 {
	end := r.process(client).end
	for _, f := range r.faults {
		if f.name == "crash" && f.client == client {
			end = min(end, f.from)
		}
	}
	return end
}

// around is how far a stall says how busy the machine was.
const around = int64(2 * time.Second)

// slack is by how much what a process does then may be late although it ran: on a calm machine a little, otherwise by as
// much as any other process did not run at a time.
func (r *run) slack(client string, t int64) int64 {
	longest := int64(0)
	for _, f := range r.faults {
		if f.name == history.Stall && f.from <= t+around && f.to >= t-around && f.to-f.from > longest && !f.hits(client) && !r.thawed(f) {
			longest = f.to - f.from
		}
	}
	return r.header.SignalSlack + longest
}

// thawed reports whether a process had been frozen when it found that it had not run.
func (r *run) thawed(f fault) bool {
	return period{f.from, f.to}.common(r.stood(f.client, history.Freeze)) > 0
}

// longStall is the least time that counts as one in Stalls. What is shorter is excused, too.
const longStall = int64(100 * time.Millisecond)

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
		life := period{e.At, r.process(e.Client).end}
		frozen := r.stood(e.Client, history.Freeze)
		s.Lived += life.to - life.from
		for _, p := range r.stood(e.Client, history.Stall) {
			within := life.common([]period{p})
			if within < longStall {
				continue
			}
			thawed := p.common(frozen) // Who was frozen finds that it has stalled, too.
			s.Time += within - thawed
			if thawed == 0 {
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

// unseen is how long a thread may stand still between the last step of a call and the time that it writes, although its
// process tells of no stall.
const unseen = int64(30 * time.Millisecond)

// used is a time before which the caller did not get the lock. If its process stood still when the call returned, nobody
// knows since when.
func (r *run) used(l *lock) int64 {
	from := l.got - unseen
	for _, p := range slices.Backward(r.stood(l.client, history.Freeze, history.Stall)) {
		if p.from <= l.got && p.to >= from {
			from = p.from
		}
	}
	return max(from, l.acquired.begin.At)
}

// leastHold is how long a lock's min hold is by the clock of a run: nodes' clocks may be fast.
func (r *run) leastHold(l *lock) int64 {
	return int64(float64(l.acquired.begin.MinHold) * (1 - r.header.Drift))
}
