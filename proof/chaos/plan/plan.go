// Package plan draws the schedule of a run from its seed: all faults with their times, before anything is started.
package plan

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A Fault is what goes wrong, when, for how long, and with whom.
type Fault struct {
	At, For time.Duration
	Kind    string
	Node    int           // From 0 on, -1 if it is no node's.
	Client  int           // From 1 on, 0 if it is no client's. With a node, the fault is of the way between the two.
	Amount  time.Duration // Of a clock's step back, of a maxTTL; what a clock gains in a second.
	Nodes   int           // From how many a client is cut off.
	How     string        // What happens on the way: Hole, Refuse, Snap, Drop or Mute.
}

// A Plan is all that a run does by its seed.
type Plan struct {
	Seed     uint64
	Course   string
	Duration time.Duration

	Nodes, Clients, Workers  int
	Resources                []string
	Fenced                   []string       // Those of Resources whose locks have fences.
	Bare, Expiring, Led, Hot []string       // See package protocol.
	TTL, MaxTTL, NodeTimeout time.Duration  // Without MaxTTL there is no quarantine.
	Conns                    map[int]string // How clients are connected, by their numbers; see package protocol.

	// Sets are those that clients have one after another, by the numbers of their nodes; nil if all have all.
	Sets [][]int

	// LastMaxTTL is the largest maxTTL that clients are restarted with.
	LastMaxTTL time.Duration

	// LeftAfter is how long after the end of all work keys may still be there: those of killed clients, for a ttl that
	// may have begun late.
	LeftAfter time.Duration

	Faults []Fault
}

// sizes are the numbers of nodes, by whether the seed is even: so a few seeds in a row have both kinds.
var sizes = [2][4]int{{4, 4, 6, 4}, {3, 5, 5, 7}}

// sets grow from three to five nodes, shrink, and replace one for good, again and again: two in a row differ by one node.
var sets = [][]int{
	{0, 1, 2},
	{0, 1, 2, 3},
	{0, 1, 2, 3, 4},
	{0, 1, 2, 3},
	{1, 2, 3},
	{1, 2, 3, 4},
	{2, 3, 4},
	{0, 2, 3, 4},
	{0, 2, 4},
	{0, 1, 2, 4},
}

// Late is how much later than its connection's end a byte may arrive.
const Late = time.Second

const (
	// Ago is how old the data is with which a node comes back as stale.
	Ago = 2 * time.Second
	// MostMaxTTL is the largest maxTTL that clients come to, by Raise.
	MostMaxTTL = 4 * time.Second

	// Slew is for how long a clock with a wrong rate runs fast, and then slow for as long, as a daemon keeps it near the
	// right time: counters of fences that are lost are made again from clocks, which must differ by less than a second.
	Slew = 30 * time.Second
	// maxRate is what a clock gains or loses in a second at most. The library's default drift allowance is 10 ms for each.
	maxRate = 9 * time.Millisecond
)

// Mute is what a way does that loses requests only.
const Mute = "mute"

// The kinds of faults. What each excuses says history.Faults.
const (
	Kill    = "kill"    // The server is killed and started again with its data.
	Empty   = "empty"   // The server is killed, or flushed, and has lost all that it had.
	Freeze  = "freeze"  // SIGSTOP of the process.
	Reset   = "reset"   // All connections to the node break; what is on its way arrives late.
	Cut     = "cut"     // All connections to the node break; what is on its way is gone.
	Drop    = "drop"    // Requests are carried out, and nobody hears of it.
	Slow    = "slow"    // Bytes take up to 60 ms, then the connections break, and they arrive up to a second late.
	Refuse  = "refuse"  // The node takes no new connections, and the old ones are broken.
	Hole    = "hole"    // All bytes vanish in both directions.
	Away    = "away"    // One client is cut off from a node that others reach.
	Oneway  = "oneway"  // One direction between a client and a node fails.
	Split   = "split"   // Each client is cut off from a minority of its own.
	Pause   = "pause"   // SIGSTOP of a client.
	Crash   = "crash"   // kill -9 of a client; another one takes its place.
	Flush   = "flush"   // FLUSHALL on all servers but the last.
	Most    = "most"    // SIGSTOP of a majority of the servers.
	Rolling = "rolling" // All servers are restarted one by one with their data, and admitted by an operator.
	Raise   = "raise"   // All clients are restarted one by one with a larger maxTTL.
	Stale   = "stale"   // The server is killed, and started again with what it had a while ago.
	Clock   = "clock"   // The clock of the node's server is set back, and stays so.
	Rate    = "rate"    // The clock of the node's server runs fast, then slow, then fast.
	Crowd   = "crowd"   // Hundreds of callers in another process ask the nodes for locks.
	Grow    = "grow"    // All clients are restarted one by one with the next set of nodes.
	Alone   = "alone"   // A client is cut off from all nodes, or all but one.
	Snap    = "snap"    // Connections break while an extension or a repair is on its way.
	Full    = "full"    // The server is out of memory: it makes no key, and extends and deletes what it has.
	Stutter = "stutter" // The server stands still for longer than the node timeout, again and again.
	Lag     = "lag"     // Bytes to and from the server take 20 to 60 ms, from the start on.
)

// Courses are the sets of faults that a run can have.
var Courses = map[string][]string{
	All: {
		Kill, Empty, Stale, Freeze, Reset, Cut, Drop, Slow, Refuse, Hole, Away, Oneway, Split, Pause, Crash, Flush, Most, Rolling,
		Raise, Clock, Rate, Crowd, Alone, Snap, Full, Stutter, Lag, Grow,
	},
	"none":    {},
	"kill":    {Kill},
	"empty":   {Empty, Stale, Flush},
	"freeze":  {Freeze, Most, Stutter},
	"network": {Reset, Cut, Drop, Slow, Refuse, Hole, Away, Oneway, Split, Alone, Snap, Lag},
	"clients": {Pause, Crash},
	"rolling": {Rolling, Raise},
	"clock":   {Clock, Rate, Kill},
	"crowd":   {Crowd},
	Grow:      {Grow, Kill, Freeze, Pause, Crash},
	Fleet:     {Kill, Freeze, Rolling, Pause, Crash, Rate},
	Soak:      {Kill, Freeze, Reset, Drop, Slow, Refuse},
}

// All is the course of runs that draw their set-up, too.
const All = "all"

// Soak is the course of long runs, in which nothing may grow: clients live as long as the run does, and instead of what they
// do they tell how much they use, as hours of events would fill disks. Its faults are mild: locks go on, and every path of an
// error is taken again and again.
const Soak = "soak"

// Fleet is the course of runs with clients of other libraries on the same nodes and resources, as while a program is
// migrated: without quarantine and fences, which those do not have. Its faults are those that redsync and node-redlock bear
// by themselves; pauses and crashes are of our clients only. Left out are these:
//   - Lost data and clocks that are set: no library bears them without quarantine.
//   - Freezes of a majority: node-redlock tells its holder of a loss only when all retries of an extension have failed, seconds
//     after the lock has ended.
//   - Faults of the network: redsync has one value for all tries of a call, so the release after one of them can delete the
//     key of the next one if it comes late.
const Fleet = "fleet"

// Names are those of all courses.
func Names() []string { return slices.Sorted(maps.Keys(Courses)) }

// Draw makes the plan of a seed. Those kinds of faults for which has is false are left out.
func Draw(seed uint64, course string, duration time.Duration, has func(kind string) bool) (*Plan, error) {
	kinds, ok := Courses[course]
	if !ok {
		return nil, fmt.Errorf("plan: no course %q; there are %s", course, strings.Join(Names(), ", "))
	}
	if duration <= 0 {
		return nil, fmt.Errorf("plan: nothing happens in %v", duration)
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	p := &Plan{
		Seed: seed, Course: course, Duration: duration,
		Nodes: sizes[seed%2][rng.IntN(4)], Clients: 3 + rng.IntN(2), Workers: 4,
		Resources: strings.Split("abcdefghijklmnop", ""),
		TTL:       1500 * time.Millisecond, NodeTimeout: 250 * time.Millisecond,
	}
	// Quarantine is what the promises need once nodes may lose their data.
	if course == All {
		kinds = p.setUp(kinds)
	}
	if course != Fleet && (slices.Contains(kinds, Empty) || slices.Contains(kinds, Raise) || slices.Contains(kinds, Grow) || course != All && rng.IntN(2) == 0) {
		p.MaxTTL = p.TTL + 500*time.Millisecond
	}
	for _, i := range rng.Perm(len(p.Resources))[:2+rng.IntN(6)] {
		p.Fenced = append(p.Fenced, p.Resources[i])
	}
	p.Expiring, p.Led = []string{"u", "v", "x", "y"}, []string{"leader", "stay"}
	p.Bare, p.Hot = p.Expiring[:2], []string{"hot", "hotter", "pair/1", "pair/2"}
	p.Fenced = append(p.Fenced, p.Hot[1])
	if course == Fleet {
		p.TTL, p.Fenced = 2*p.TTL, nil // The limits of redsync's requests follow from the ttl.
	}
	if slices.Contains(kinds, Grow) {
		p.Nodes, p.Sets = 5, sets
	}
	d := &drawing{p: p, kinds: slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return !has(k) })}
	d.draw()
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	for _, f := range p.Faults {
		switch f.Kind {
		case Raise:
			p.LastMaxTTL = max(p.LastMaxTTL, f.Amount)
		case Clock: // The clock that ends a key is set back, again and again.
			p.LeftAfter += f.Amount
		}
	}
	p.LastMaxTTL = max(p.LastMaxTTL, p.MaxTTL)
	p.LeftAfter += p.TTL + Late + 15*time.Second // The rest is for a machine that is busy.
	return p, nil
}

// Has reports whether there is a fault of a kind.
func (p *Plan) Has(kind string) bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == kind })
}

// Print writes the plan so that it can be read.
func (p *Plan) Print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "seed %d, course %s, %v: %d nodes, %d clients of %d workers, resources %s, with fences %s; ttl %v, maxTTL %v, node timeout %v; connected otherwise: %v\n",
		p.Seed, p.Course, p.Duration, p.Nodes, p.Clients, p.Workers, strings.Join(p.Resources, " "), strings.Join(p.Fenced, " "), p.TTL, p.MaxTTL, p.NodeTimeout, p.Conns)
	for _, f := range p.Faults {
		_, _ = fmt.Fprintf(w, "%8.2f s  %s\n", f.At.Seconds(), f)
	}
}

// String says what the fault is and whom it strikes.
func (f Fault) String() string {
	s := f.Kind
	if f.Node >= 0 {
		s += fmt.Sprintf(" of node %d", f.Node)
	}
	if f.Client > 0 {
		s += fmt.Sprintf(" of c%d", f.Client)
	}
	switch {
	case f.Kind == Rate:
		s += fmt.Sprintf(" (%v a second)", f.Amount)
	case f.Amount != 0:
		s += fmt.Sprintf(" (%v)", f.Amount)
	case f.How != "":
		s += fmt.Sprintf(" (%s)", f.How)
	}
	if f.For > 0 {
		s += fmt.Sprintf(" for %v", f.For)
	}
	return s
}
