// Package plan draws the schedule of a run from its seed: all faults with their times, before anything is started.
package plan

import (
	"cmp"
	"fmt"
	"io"
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
	Client  int           // From 1 on, 0 if it is no client's.
	Amount  time.Duration // Of a clock's step back, of a maxTTL.
}

// A Plan is all that a run does by its seed.
type Plan struct {
	Seed     uint64
	Course   string
	Duration time.Duration

	Nodes, Clients, Workers  int
	Resources                []string
	TTL, MaxTTL, NodeTimeout time.Duration // Without MaxTTL there is no quarantine.

	// LeftAfter is how long after the end of all work keys may still be there: those of killed clients, for a ttl that
	// may have begun late.
	LeftAfter time.Duration

	Broken Broken // What is broken on purpose.

	Faults []Fault
}

// Late is how much later than its connection's end a byte may arrive.
const Late = time.Second

// The kinds of faults.
const (
	Kill    = "kill"    // The server is killed and started again with its data.
	Empty   = "empty"   // The same, and it has lost all that it had.
	Freeze  = "freeze"  // SIGSTOP of the server.
	Reset   = "reset"   // All connections to the node break; what is on its way arrives late.
	Cut     = "cut"     // The same on both sides: what is on its way is gone.
	Drop    = "drop"    // Requests are carried out, and nobody hears of it.
	Slow    = "slow"    // Bytes take up to 60 ms, then the connections break, and they arrive up to a second late.
	Refuse  = "refuse"  // No new connections, and the old ones broken.
	Hole    = "hole"    // All bytes vanish in both directions.
	Pause   = "pause"   // SIGSTOP of a client.
	Crash   = "crash"   // kill -9 of a client; another one takes its place.
	Flush   = "flush"   // FLUSHALL on all servers but the last.
	Most    = "most"    // SIGSTOP of a majority of the servers.
	Rolling = "rolling" // All servers are restarted one by one with their data, and admitted by an operator.
	Raise   = "raise"   // All clients are restarted one by one with a larger maxTTL.
	Clock   = "clock"   // The clock of a node's server is set back, and stays so.
	Crowd   = "crowd"   // Hundreds of callers in another process ask the nodes for locks.
	Netns   = "netns"   // The network interface of a client is down.
)

// Courses are the sets of faults that a run can have.
var Courses = map[string][]string{
	"none":    {},
	"kill":    {Kill},
	"empty":   {Empty, Flush},
	"freeze":  {Freeze, Most},
	"network": {Reset, Cut, Drop, Slow, Refuse, Hole},
	"clients": {Pause, Crash},
	"rolling": {Rolling, Raise},
	"clock":   {Clock, Kill},
	"crowd":   {Crowd},
	"netns":   {Netns},
}

var ofAll = []string{Kill, Empty, Freeze, Reset, Cut, Drop, Slow, Refuse, Hole, Pause, Crash, Flush, Most, Rolling, Raise, Clock, Crowd, Netns}

// All are the kinds of the course "all".
func All() []string { return slices.Clone(ofAll) }

// Names are those of all courses.
func Names() []string {
	names := []string{"all"}
	for name := range Courses {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Draw makes the plan of a seed. Those kinds of faults for which has is false are left out.
func Draw(seed uint64, course string, duration time.Duration, has func(kind string) bool) (*Plan, error) {
	kinds, ok := Courses[course]
	if course == "all" {
		kinds, ok = ofAll, true
	}
	if !ok {
		return nil, fmt.Errorf("plan: no course %q; there are %s", course, strings.Join(Names(), ", "))
	}
	if duration <= 0 {
		return nil, fmt.Errorf("plan: nothing happens in %v", duration)
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	p := &Plan{
		Seed: seed, Course: course, Duration: duration,
		Nodes: []int{3, 3, 4, 5, 5, 5, 7}[rng.IntN(7)], Clients: 3 + rng.IntN(2), Workers: 4,
		Resources: []string{"a", "b", "c", "d"},
		TTL:       1500 * time.Millisecond, NodeTimeout: 250 * time.Millisecond,
	}
	// Quarantine is what the promises need once nodes may lose their data.
	if slices.Contains(kinds, Empty) || slices.Contains(kinds, Raise) || rng.IntN(2) == 0 {
		p.MaxTTL = 2 * time.Second
	}
	d := &drawing{p: p, kinds: slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return !has(k) })}
	d.draw()
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	p.LeftAfter = p.TTL + Late + p.setBack() + 15*time.Second // The rest is for a machine that is busy.
	return p, nil
}

// setBack is by how much longer a key may stay after the end because the clock that ends it was set back, again and
// again.
func (p *Plan) setBack() (longer time.Duration) {
	var steps time.Duration
	for _, f := range slices.Backward(p.Faults) {
		if f.Kind == Clock {
			steps += f.Amount
			longer = max(longer, steps-(p.Duration-f.At))
		}
	}
	return longer
}

// Has reports whether there is a fault of a kind.
func (p *Plan) Has(kind string) bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == kind })
}

// Print writes the plan so that it can be read.
func (p *Plan) Print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "seed %d, course %s, %v: %d nodes, %d clients of %d workers, resources %s; ttl %v, maxTTL %v, node timeout %v\n",
		p.Seed, p.Course, p.Duration, p.Nodes, p.Clients, p.Workers, strings.Join(p.Resources, " "), p.TTL, p.MaxTTL, p.NodeTimeout)
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
	if f.Amount != 0 {
		s += fmt.Sprintf(" (%v)", f.Amount)
	}
	if f.For > 0 {
		s += fmt.Sprintf(" for %v", f.For)
	}
	return s
}
