package judge

import (
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/proof/history"
)

// A run is a history in the form that rules need.
type run struct {
	events []history.Event
	header history.Header
	end    int64 // When the last event was.
	headed bool  // It has its first line.
	closed bool  // It has its last line.

	calls      map[id]*call
	inOrder    []*call // by when they began
	got        []*lock // By when their calls began.
	byToken    map[string]*lock
	byHolder   map[string]*lock   // By digests of tokens.
	byResource map[string][]*lock // by when they were got
	resources  []string
	passedOn   int // How many locks were.

	operations map[string][]history.Event // of the register, by resource
	final      map[string]history.Event   // the register in the end
	faults     []fault
	votes      map[id][]history.Event // of a call's attempts
	trail
	processes map[string]*process
	waiting   map[string][]*call // by resource: calls of Lock that waited
	odd       []oddity           // what does not fit together
}

// A process is one of a client's.
type process struct {
	set    []int // Its nodes, nil: all.
	deaf   bool  // It hears of no release.
	end    int64 // When it ended, or else the run.
	ended  bool
	killed bool // By something that could cut off what it did.
}

func (r *run) process(client string) *process {
	p := r.processes[client]
	if p == nil {
		p = &process{end: r.end}
		r.processes[client] = p
	}
	return p
}

// An id names a call of a client, or the lock that it acquired.
type id struct {
	client string
	call   int
}

// A call is one of the library's functions at work.
type call struct {
	id
	begin history.Event
	end   *history.Event // nil: it has not returned
	lock  *lock          // nil: it got none
	wait  int64          // since when it waits, 0: it does not
}

func (c *call) ok() bool { return c.end != nil && c.end.OK }

// lost reports whether the call was told that the lock is gone.
func (c *call) lost() bool { return c.end != nil && c.end.Outcome == history.OutcomeLost }

// returned is when the call did, or will have at the end of the history.
func (c *call) returned(r *run) int64 {
	if c.end != nil {
		return c.end.At
	}
	return max(r.end, c.begin.At)
}

// A fault is what the conductor did to a node or a client, or to all.
type fault struct {
	history.FaultKind
	name     string
	client   string
	node     int // -1: none
	from, to int64
	begun    *history.Event
	ended    bool
}

func newRun(events []history.Event) *run {
	r := &run{
		events: events, calls: make(map[id]*call), byToken: make(map[string]*lock), byHolder: make(map[string]*lock),
		votes: make(map[id][]history.Event), byResource: make(map[string][]*lock), operations: make(map[string][]history.Event),
		processes: make(map[string]*process), waiting: make(map[string][]*call), final: make(map[string]history.Event),
		trail: trail{seen: make(map[site][]*history.Event), gaps: make(map[int][]period), keys: make(map[string][]string)},
	}
	for _, e := range events {
		r.end = max(r.end, e.At, e.End)
	}
	// In three passes: lines of different processes come in the order in which they were received, so that a lock may
	// be spoken of before the line that says that it was acquired.
	for i := range events {
		r.readCall(&events[i])
	}
	r.makeLocks()
	for i := range events {
		r.readOther(&events[i])
	}
	r.readOrder()
	for _, l := range r.got {
		l.settle(r)
	}
	for _, c := range r.inOrder {
		for _, res := range c.begin.Resources {
			if c.wait > 0 {
				r.waiting[res] = append(r.waiting[res], c)
			}
		}
	}
	return r
}

// readCall notes calls, and what is about the whole run.
func (r *run) readCall(e *history.Event) {
	switch e.Kind {
	case history.Run:
		if e.Run != nil {
			r.header, r.headed = *e.Run, true
		}
	case history.End:
		r.closed = true
	case history.Call:
		c := &call{id: id{e.Client, e.Call}, begin: *e}
		if r.calls[c.id] != nil {
			r.strange(e, "a call with this number had begun before")
		}
		r.calls[c.id] = c
		r.inOrder = append(r.inOrder, c)
	case history.Up:
		p := r.process(e.Client)
		p.set, p.deaf = e.Set, e.Polls
	case history.Down:
		p := r.process(e.Client)
		p.end, p.ended, p.killed = e.At, true, e.Err != ""
	default:
	}
}

// readOther notes everything else.
func (r *run) readOther(e *history.Event) {
	switch e.Kind {
	case history.Read, history.Write:
		for _, res := range e.Resources {
			r.operations[res] = append(r.operations[res], *e)
		}
		fallthrough
	case history.Keep, history.Lost, history.Enter, history.Leave:
		if l := r.lockOf(*e); l != nil {
			l.note(e)
		} else {
			r.strange(e, "nobody has acquired this lock")
		}
	case history.Register:
		for _, res := range e.Resources {
			r.final[res] = *e
		}
	case history.FaultBegin:
		f := fault{
			FaultKind: history.Faults[e.Fault], name: e.Fault, client: e.Client, node: -1, from: e.At, to: e.At, begun: e,
		}
		if f.Open {
			f.to = r.end
		}
		if e.Node != nil {
			f.node = *e.Node
		}
		r.faults = append(r.faults, f)
	case history.FaultEnd:
		r.endFault(e)
	case history.Votes:
		of := id{e.Client, e.Call}
		r.votes[of] = append(r.votes[of], *e)
	case history.Step:
		r.readStep(e)
	case history.Passed:
		if l := r.lockOf(*e); l != nil { // A Do that had no time to begin tells of no lock.
			l.note(e)
		}
	default:
	}
}

// endFault ends the last fault of that name at that place.
func (r *run) endFault(e *history.Event) {
	for i, f := range slices.Backward(r.faults) {
		if f.name == e.Fault && f.client == e.Client && (e.Node == nil || f.node == *e.Node) {
			r.faults[i].to, r.faults[i].ended = e.At, true
			return
		}
	}
	r.strange(e, "this fault has not begun")
}

// lockOf is the lock that an event is about, nil if it names none that is known.
func (r *run) lockOf(e history.Event) *lock {
	if e.Lock > 0 {
		owner := e.Owner
		if owner == "" {
			owner = e.Client
		}
		if c := r.calls[id{owner, e.Lock}]; c != nil {
			return c.lock
		}
		return nil
	}
	if e.Token != "" {
		return r.byToken[e.Token]
	}
	return nil
}

// guest reports whether a client is of another library.
func (r *run) guest(client string) bool {
	return slices.ContainsFunc(r.header.Guests, func(name string) bool { return fault{client: name}.hits(client) })
}

// hits reports whether a fault is one of this client's process: c1 names all of c1, c1.2, ...
func (f fault) hits(client string) bool {
	return f.client != "" && (client == f.client || strings.HasPrefix(client, f.client+"."))
}
