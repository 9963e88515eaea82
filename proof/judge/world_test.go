package judge

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// A world is a lease server for each resource, and processes that use them, in a time of its own. What it does is right
// by its making: each resource is one variable. Answers come late or not at all, processes stand still and die, and each
// tells of what it did when it comes to it. All of that has to pass.
type world struct {
	rng   *rand.Rand
	now   int64
	queue steps
	count int

	header    history.Header
	events    []history.Event
	resources map[string]*resource
	plain     int // of them: r0, r1, ...
	processes []*process
	until     int64 // No new activity begins after this.
}

// A resource is what is locked, and a register that its fences guard.
type resource struct {
	token          *grant // whose keys are there, nil: nobody's
	expires        int64
	counter        int64
	value, highest int64
}

// A process makes calls.
type process struct {
	w       *world
	name    string
	calls   int
	dead    bool
	stopped int64 // until then
	stalls  bool  // and has to tell so itself
	lines   map[string][]*waiting
}

// A grant is a lock that was got, as its holder knows it.
type grant struct {
	p         *process
	call      int
	resources []string
	fence     int64
	until     int64
	kept      bool
	quiet     bool // Its extensions are not written.
	cut       bool // Nobody hears the answers to its extensions.
	over      bool // Its release has begun, or it was found lost.
	lost      bool
	minHold   int64 // Its keys stay for that long from used on.
	used      int64
	ended     bool // Its hold is over, and it goes on.
}

// A waiting is a call of Lock in line.
type waiting struct {
	p         *process
	call      history.Event
	gives     int64 // up at
	noted     bool
	use       func(*grant)
	then      func()
	abandoned bool
}

const (
	ttl     = int64(300 * time.Millisecond)
	drift   = int64(5 * time.Millisecond)
	timeout = int64(30 * time.Millisecond)
	unit    = int64(time.Millisecond)
)

type step struct {
	at int64
	n  int
	do func()
}

type steps []step

func (s steps) Len() int           { return len(s) }
func (s steps) Less(i, j int) bool { return s[i].at < s[j].at || s[i].at == s[j].at && s[i].n < s[j].n }
func (s steps) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *steps) Push(x any)        { *s = append(*s, x.(step)) }
func (s *steps) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// later has a server do something.
func (w *world) later(d int64, do func()) {
	w.count++
	heap.Push(&w.queue, step{w.now + d, w.count, do})
}

// soon is what a message or a step of a program takes: mostly little.
func (w *world) soon() int64 {
	if w.rng.IntN(20) == 0 {
		return w.rng.Int64N(15 * unit)
	}
	return w.rng.Int64N(unit) + 1
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

// later has a process do something, when it does not stand still, unless it is dead.
func (p *process) later(d int64, do func()) {
	p.w.later(d, func() {
		switch {
		case p.dead:
		case p.stopped > p.w.now:
			p.later(p.stopped-p.w.now+p.w.soon(), do)
		default:
			do()
		}
	})
}

func (p *process) write(e history.Event) {
	e.At, e.Client = p.w.now, p.name
	p.w.events = append(p.w.events, e)
}

// begin writes that a call begins.
func (p *process) begin(op string, e history.Event) history.Event {
	p.calls++
	e.Kind, e.Op, e.Call = history.Call, op, p.calls
	p.write(e)
	return e
}

// end writes that it has returned, some time later.
func (p *process) end(call, e history.Event, then func()) {
	e.Kind, e.Op, e.Call = history.Return, call.Op, call.Call
	p.later(p.w.soon()/4, func() {
		p.write(e)
		then()
	})
}

// run lets the world go on until nothing happens any more, and returns its history.
func (w *world) run() []history.Event {
	for len(w.queue) > 0 {
		s := heap.Pop(&w.queue).(step)
		w.now = s.at
		s.do()
	}
	header := w.header
	events := append([]history.Event{{Kind: history.Run, Run: &header}}, w.events...)
	// Answers get lost at any time, so no hold need go on, and nobody need be next soon.
	events = append(events, history.Event{Kind: history.FaultBegin, Fault: "lossy"}, history.Event{At: w.now, Kind: history.FaultEnd, Fault: "lossy"})
	for name, r := range w.resources {
		events = append(events, history.Event{
			At: w.now, Kind: history.Register, Resources: []string{name}, Value: r.value, Fence: r.highest,
		})
	}
	for n := range w.header.Nodes {
		events = append(events, history.Event{At: w.now, Kind: history.Keys, Node: &n})
	}
	return append(events, history.Event{At: w.now, Kind: history.End})
}

// newWorld makes a world with some processes, in each of which some workers are busy for some seconds.
func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), resources: make(map[string]*resource), until: int64(3 * time.Second)}
	w.header = history.Header{
		Seed: seed, Course: "world", Library: "redlock", Nodes: 3, Clients: 3, Fences: true, SignalSlack: 20 * unit,
		Settings: map[string]string{"node timeout": "10ms"},
	}
	w.plain = 1 + w.rng.IntN(3)
	for i := range w.plain {
		w.resources[fmt.Sprint("r", i)] = &resource{}
	}
	for i := range 3 {
		p := &process{w: w, name: fmt.Sprint("c", i+1), lines: make(map[string][]*waiting)}
		w.processes = append(w.processes, p)
		for range 3 {
			p.later(w.soon(), p.work)
		}
		p.later(w.soon(), p.feature)
		for range w.rng.IntN(3) {
			if at := w.rng.Int64N(w.until); seed%4 > 0 { // In the others, nothing is excused.
				w.later(at, p.freeze)
			}
		}
		if w.chance(30) {
			w.later(w.rng.Int64N(w.until), p.die)
		}
	}
	return w
}

func (p *process) freeze() {
	if p.dead || p.stopped > p.w.now {
		return
	}
	d := p.w.rng.Int64N(2 * ttl)
	p.stopped = p.w.now + d
	if p.w.chance(50) {
		p.write(history.Event{Kind: history.FaultBegin, Fault: history.Freeze})
		p.w.later(d, func() { p.write(history.Event{Kind: history.FaultEnd, Fault: history.Freeze}) })
		return
	}
	from := p.w.now
	p.stalls = true
	p.later(d, func() { // Nobody else knows, so the process tells it when it runs again.
		p.stalls = false
		begin := history.Event{At: from, Kind: history.FaultBegin, Client: p.name, Fault: history.Stall}
		p.w.events = append(p.w.events, begin)
		p.write(history.Event{Kind: history.FaultEnd, Fault: history.Stall})
	})
}

func (p *process) die() {
	if p.stalls { // If it could not tell that any more, its calls would seem to hang.
		p.later(0, p.die)
		return
	}
	p.dead = true
	p.write(history.Event{Kind: history.Down, Err: "killed"})
	for _, line := range p.lines {
		for _, q := range line {
			q.abandoned = true
		}
	}
}

// grantable reports whether nobody has any of the resources.
func (w *world) grantable(names []string) bool {
	for _, name := range names {
		if r := w.resources[name]; r.token != nil && r.expires > w.now {
			return false
		}
	}
	return true
}

// grant gives all resources to g, whose attempt began at start.
func (w *world) grant(g *grant, start int64) {
	for _, name := range g.resources {
		g.fence = max(g.fence, w.resources[name].counter+1)
	}
	for _, name := range g.resources {
		r := w.resources[name]
		r.token, r.expires, r.counter = g, w.now+ttl+w.rng.Int64N(drift), g.fence
	}
	g.until = start + ttl - drift
}

// has reports whether the keys of g are still there.
func (w *world) has(g *grant) bool {
	for _, name := range g.resources {
		if r := w.resources[name]; r.token != g || r.expires <= w.now {
			return false
		}
	}
	return true
}

// leave ends the keys of g when its min hold is over, and reports whether they were all there.
func (w *world) leave(g *grant) bool {
	all := w.has(g)
	for _, name := range g.resources {
		if r := w.resources[name]; r.token == g {
			r.expires = min(r.expires, g.used+g.minHold)
		}
	}
	return all
}

// remove deletes the keys of g, and reports whether they were all there.
func (w *world) remove(g *grant) bool {
	all := w.has(g)
	for _, name := range g.resources {
		if r := w.resources[name]; r.token == g {
			r.token = nil
		}
	}
	return all
}
