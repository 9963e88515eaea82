package plan

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/protocol"
)

// A drawing is a plan that is being drawn. Each series of faults has a random sequence of its own, so that a kind that
// cannot be had here changes as little as possible of the others.
type drawing struct {
	p     *Plan
	kinds []string
	busy  [][]Fault // Of each node.
	whole []Fault   // Those that strike more than a minority.

	splits []Fault
}

const (
	// warmup is the time in which clients get their first locks.
	warmup = time.Second
	// calm is a time without faults.
	calm = "calm"
	// readable is what times are rounded to.
	readable = 10 * time.Millisecond
	// step is by how much a fault that does not suit is put off.
	step = 100 * time.Millisecond
)

// counts are the numbers of nodes of runs that draw their set-up, so that a few seeds in a row have small, even and odd ones.
var counts = [...]int{1, 5, 4, 3, 6, 2}

// setUp draws what a run of all faults is about: how many nodes, times, and how clients are connected. It returns the faults
// that suit: those that the promises except without quarantine, or while the set changes, are left out then.
func (p *Plan) setUp(kinds []string) []string {
	rng := rand.New(rand.NewPCG(p.Seed, 4))
	p.Nodes = counts[p.Seed%uint64(len(counts))]
	p.TTL = time.Duration(4+rng.IntN(3)) * 300 * time.Millisecond
	p.NodeTimeout = time.Duration(150+50*rng.IntN(6)) * time.Millisecond
	p.Conns = make(map[int]string)
	for i := 3; i <= p.Clients; i++ { // Two are as usual: who is next in line is known of those that hear of releases.
		p.Conns[i] = pick(rng, "", protocol.Single, protocol.Mute, protocol.Hidden)
	}
	without := []string{Grow}
	switch lot := rng.IntN(5); {
	case lot == 0 && p.Nodes > 2:
		without = []string{Empty, Stale, Flush, Raise, Rolling, Most, Split, Alone, Clock, Crowd}
	case lot == 1:
		without = append(without, Empty, Stale, Flush, Raise)
	}
	return slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return slices.Contains(without, k) })
}

func (d *drawing) draw() {
	d.busy = make([][]Fault, d.p.Nodes)
	d.drawCalm()
	d.drawRates()
	d.drawWhole()
	if d.has(Split) && d.p.Nodes > 2 {
		d.drawSeldom(3, 6*time.Second, 14*time.Second, d.whole, d.split)
		d.splits = slices.DeleteFunc(slices.Clone(d.p.Faults), func(f Fault) bool { return f.Kind != Split })
	}
	d.drawSteps()
	faulty := (d.p.Nodes - 1) / 2
	if d.p.Sets != nil {
		faulty = 1 // The smallest set has three.
	}
	for i := range faulty {
		d.drawNodes(uint64(100+i), 900*time.Millisecond, Kill, Kill, Empty, Empty, Stale, Freeze, Reset, Cut, Drop, Slow,
			Refuse, Hole, Clock, Snap, Snap, Full, Full, Stutter, Stutter)
	}
	if faulty == 0 { // Nobody gets a lock meanwhile, so it is seldom.
		d.drawNodes(100, 4*time.Second, Kill, Freeze, Reset, Cut, Drop, Slow, Refuse, Hole, Snap, Snap, Full)
	}
	d.drawNodes(400, 1800*time.Millisecond, Away, Oneway) // Between one client and one node, also while another node is away.
	if d.has(Pause) || d.has(Crash) {
		d.drawSeldom(200, 300*time.Millisecond, 2*time.Second, d.raises(), d.ofClient)
	}
	if d.has(Crowd) {
		d.drawSeldom(300, 10*time.Second, 30*time.Second, d.raises(), d.crowd)
	}
	if d.has(Alone) {
		d.drawSeldom(301, 3*time.Second, 9*time.Second, d.raises(), d.alone)
	}
}

func (d *drawing) has(kind string) bool { return slices.Contains(d.kinds, kind) }

func (d *drawing) only(kinds []string) []string {
	return slices.DeleteFunc(kinds, func(k string) bool { return !d.has(k) })
}

// lot is the random sequence of a series.
func (d *drawing) lot(series uint64) *rand.Rand { return rand.New(rand.NewPCG(d.p.Seed, series)) }

func (d *drawing) add(f Fault) {
	d.p.Faults = append(d.p.Faults, f)
	if f.Node >= 0 {
		d.busy[f.Node] = append(d.busy[f.Node], f)
	}
}

// after is how long a node needs once the fault is over until it votes again.
func (d *drawing) after(f Fault) time.Duration {
	if d.p.MaxTTL > 0 && slices.Contains([]string{Kill, Empty, Stale, Clock, Flush}, f.Kind) {
		return d.p.MaxTTL + 1500*time.Millisecond
	}
	return 200 * time.Millisecond
}

// free reports whether nothing else is planned for the time of a fault in faults.
func (d *drawing) free(f Fault, faults []Fault) bool {
	return !slices.ContainsFunc(faults, func(g Fault) bool {
		return f.At < g.At+g.For+d.after(g) && g.At < f.At+f.For+d.after(f)
	})
}

// drawCalm leaves a part of the time without faults: what goes on when nothing is wrong is judged, too.
func (d *drawing) drawCalm() {
	const every, long = 20 * time.Second, 6 * time.Second
	for at := every / 2; at < d.p.Duration; at += every {
		d.whole = append(d.whole, Fault{At: at, For: long, Kind: calm, Node: -1})
	}
}

// drawWhole draws the faults for which no node may have another one: they come first, once or twice a minute.
func (d *drawing) drawWhole() {
	rng := d.lot(1)
	events := slices.DeleteFunc([]Fault{
		{Kind: Flush, For: readable},
		{Kind: Most, For: d.p.TTL * 2},
		{Kind: Rolling, For: time.Duration(d.p.Nodes) * time.Second},
		{Kind: Raise, For: time.Duration(d.p.Clients) * 500 * time.Millisecond},
	}, func(f Fault) bool { return !d.has(f.Kind) || f.Kind == Flush && d.p.Nodes == 1 })
	if len(events) == 0 {
		return
	}
	maxTTL := d.p.MaxTTL
	for at := between(rng, 3*time.Second, 8*time.Second); ; at += between(rng, 12*time.Second, 20*time.Second) {
		f := events[0]
		events = append(events[1:], f) // In turn.
		f.At, f.Node = at, -1
		if at+f.For+time.Second > d.p.Duration {
			return
		}
		switch f.Kind {
		case Most:
			f.For = between(rng, 300*time.Millisecond, f.For)
		case Raise:
			// A node abstains for as long as the largest maxTTL, so it must not grow without end.
			if maxTTL >= MostMaxTTL {
				continue
			}
			maxTTL = min(maxTTL+500*time.Millisecond, MostMaxTTL)
			f.Amount = maxTTL
		}
		for !d.free(f, d.raises()) {
			f.At += step
		}
		if at = f.At; at+f.For+time.Second > d.p.Duration {
			return
		}
		d.whole = append(d.whole, f)
		d.p.Faults = append(d.p.Faults, f)
	}
}

// drawSteps draws when the set of nodes changes. While a step takes longer than usual, the next ones are left out.
func (d *drawing) drawSteps() {
	for at := 4 * warmup; d.has(Grow) && at+5*time.Second < d.p.Duration; at += 11 * time.Second {
		d.p.Faults = append(d.p.Faults, Fault{At: at, For: 5 * time.Second, Kind: Grow, Node: -1})
	}
}

// drawRates has the clocks of most nodes run at wrong rates from the start on, in half of the runs; and one node be far away
// from all clients, in half of those that can do without it.
func (d *drawing) drawRates() {
	rng := d.lot(5)
	if d.has(Lag) && d.p.Nodes > 2 && rng.IntN(2) == 0 {
		d.p.Faults = append(d.p.Faults, Fault{Kind: Lag, Node: rng.IntN(d.p.Nodes)})
	}
	rng = d.lot(2)
	if !d.has(Rate) || rng.IntN(2) == 0 {
		return
	}
	for i := range d.p.Nodes {
		if rate := maxRate * time.Duration(rng.IntN(7)-3) / 3; rate != 0 {
			d.p.Faults = append(d.p.Faults, Fault{Kind: Rate, Node: i, Amount: rate})
		}
	}
}

// drawNodes draws a series of faults of single nodes, one after the other with a pause that may be so long.
func (d *drawing) drawNodes(series uint64, pause time.Duration, kinds ...string) {
	kinds = d.only(kinds)
	if len(kinds) == 0 {
		return
	}
	rng := d.lot(series)
	for at := warmup; ; at += between(rng, 100*time.Millisecond, pause) {
		f := Fault{At: at, Kind: pick(rng, kinds...), Node: rng.IntN(d.p.Nodes)}
		if f.Kind == Away || f.Kind == Oneway {
			f.Client = 1 + rng.IntN(d.p.Clients)
		}
		f.For = lasts(rng, f.Kind)
		// A node whose clock was set back never loses its data: its clock stands in for lost counters of fences.
		switch last := d.p.Nodes - 1; f.Kind {
		case Clock:
			f.Node, f.Amount = last, between(rng, 100*time.Millisecond, 8*time.Second)
		case Empty, Stale:
			f.Node %= last
		case Away, Oneway:
			f.How = pick(rng, Hole, Refuse, Snap)
			if f.Kind == Oneway {
				f.How = pick(rng, Drop, Mute)
			}
		}
		for !d.suits(f) { // Were another one drawn then, those that need long would be seldom.
			f.At += step
		}
		if f.At+f.For+time.Second > d.p.Duration {
			return
		}
		d.add(f)
		at = f.At + f.For + d.after(f)
	}
}

// suits reports whether no other fault of the node is planned for that time.
func (d *drawing) suits(f Fault) bool {
	return d.free(f, d.busy[f.Node]) && d.free(f, d.whole) && d.free(Fault{At: f.At, For: f.For}, d.splits)
}

// lasts draws how long a fault of a node is.
func lasts(rng *rand.Rand, kind string) time.Duration {
	switch kind {
	case Kill, Empty, Refuse:
		return between(rng, 50*time.Millisecond, time.Second)
	case Stale:
		return Ago + between(rng, 50*time.Millisecond, 500*time.Millisecond)
	case Freeze, Stutter:
		return between(rng, 200*time.Millisecond, 2500*time.Millisecond)
	case Drop, Hole, Slow, Away, Oneway, Snap, Full:
		return between(rng, 50*time.Millisecond, 1500*time.Millisecond)
	}
	return 0
}

// raises are the times in which clients are restarted anyway, or nothing is to be wrong.
func (d *drawing) raises() []Fault {
	return slices.DeleteFunc(slices.Clone(d.whole), func(f Fault) bool { return f.Kind != Raise && f.Kind != calm })
}

// drawSeldom draws faults that are no node's, one after the other, with such pauses, beside those of others.
func (d *drawing) drawSeldom(series uint64, least, most time.Duration, others []Fault, draw func(*rand.Rand, *Fault)) {
	rng := d.lot(series)
	for at := between(rng, 2*warmup, max(2*warmup, most)); ; at += between(rng, least, most) {
		f := Fault{At: at, Node: -1}
		draw(rng, &f)
		if f.At+f.For+time.Second > d.p.Duration {
			return
		}
		if d.free(f, others) {
			d.add(f)
			at += f.For
		}
	}
}

func (d *drawing) split(rng *rand.Rand, f *Fault) {
	f.Kind, f.For, f.How = Split, between(rng, 300*time.Millisecond, 2*time.Second), pick(rng, Hole, Refuse)
}

func (d *drawing) crowd(rng *rand.Rand, f *Fault) {
	f.Kind, f.For = Crowd, between(rng, 500*time.Millisecond, 2*time.Second)
}

// alone is mostly for as long as a lock lasts, or for a moment.
func (d *drawing) alone(rng *rand.Rand, f *Fault) {
	f.Kind, f.Client, f.How, f.Nodes = Alone, 1+rng.IntN(d.p.Clients), pick(rng, Hole, Refuse), d.p.Nodes-rng.IntN(2)
	if f.For = between(rng, 600*time.Millisecond, 2500*time.Millisecond); rng.IntN(2) == 0 {
		f.For = between(rng, 100*time.Millisecond, 400*time.Millisecond)
	}
}

// ofClient spares the first one from being killed: it admits nodes.
func (d *drawing) ofClient(rng *rand.Rand, f *Fault) {
	f.Kind, f.Client, f.For = pick(rng, d.only([]string{Pause, Crash})...), 1+rng.IntN(d.p.Clients), between(rng, 100*time.Millisecond, time.Second)
	switch {
	case f.Kind == Pause:
		f.For = between(rng, d.p.TTL/2, d.p.TTL+time.Second)
	case f.Client == 1:
		f.Client = d.p.Clients
	}
}

func pick(rng *rand.Rand, from ...string) string { return from[rng.IntN(len(from))] }

func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return (from + time.Duration(rng.Int64N(int64(to-from)+1))).Round(readable)
}
