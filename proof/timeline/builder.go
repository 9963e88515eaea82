package timeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
)

// A builder makes a scene of events, which it gets in the order of their times.
type builder struct {
	scene

	lanes     map[string]int
	resources map[string]int
	sets      map[string]int
	texts     map[string]int

	threads map[ref]*thread // By the acquisition.
	calls   map[ref]*call   // All calls.
	lives   map[string]*life
	open    map[string][]*fault // Those that last, by their names and lanes.
}

// A ref names a call of a process.
type ref struct {
	process string
	call    int
}

const (
	laneOfAll = "all"
	textOK    = "ok"
)

// A lane's key: no name of a client can be taken for another kind of lane.
func nodeLane(n int) string            { return fmt.Sprint("node ", n) }
func clientLane(process string) string { return "client " + base(process) }

func newBuilder(events []history.Event) *builder {
	b := &builder{
		lanes: map[string]int{}, resources: map[string]int{}, sets: map[string]int{}, texts: map[string]int{"": 0},
		threads: map[ref]*thread{}, calls: map[ref]*call{}, lives: map[string]*life{}, open: map[string][]*fault{},
	}
	b.Texts = []string{""}
	clients, nodes, all := map[string]bool{}, 0, false
	for _, e := range events {
		if e.Run != nil {
			nodes = max(nodes, e.Run.Nodes)
		}
		if e.Client != "" || e.Kind == history.Call || e.Kind == history.Up {
			clients[base(e.Client)] = true
		}
		if e.Node != nil {
			nodes = max(nodes, *e.Node+1)
		}
		for _, v := range e.Votes {
			nodes = max(nodes, v.Node+1)
		}
		nobody := e.Client == "" && (e.Node == nil || *e.Node < 0)
		all = all || e.Kind == history.FaultBegin && nobody
	}
	b.makeLanes(clients, nodes, all)
	return b
}

// makeLanes puts what is shared first, then clients, "c2" before "c10", and nodes.
func (b *builder) makeLanes(clients map[string]bool, nodes int, all bool) {
	add := func(key, name, kind string) {
		b.lanes[key] = len(b.Lanes)
		b.Lanes = append(b.Lanes, lane{Name: name, Kind: kind})
	}
	if all {
		add(laneOfAll, "all", "all")
	}
	byNumber := func(x, y string) int { return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) }
	for _, name := range slices.SortedFunc(maps.Keys(clients), byNumber) {
		add(clientLane(name), name, "client")
	}
	for n := range nodes {
		add(nodeLane(n), nodeLane(n), "node")
	}
}

func (b *builder) text(s string) int { return index(b.texts, s, &b.Texts, s) }

func (b *builder) resource(s string) int { return index(b.resources, s, &b.Resources, s) }

func (b *builder) set(resources []string) int {
	var all []int
	for _, r := range resources {
		all = append(all, b.resource(r))
	}
	slices.Sort(all)
	return index(b.sets, fmt.Sprint(all), &b.Sets, all)
}

// index returns the number of what has this key, which it may get now.
func index[T any](known map[string]int, key string, all *[]T, item T) int {
	n, ok := known[key]
	if !ok {
		n = len(*all)
		known[key], *all = n, append(*all, item)
	}
	return n
}

func (b *builder) add(e history.Event) {
	b.End = max(b.End, micro(max(e.At, e.End)))
	switch e.Kind {
	case history.Call:
		b.call(e)
	case history.Return:
		b.ret(e)
	case history.Votes:
		b.votes(e)
	case history.Wait:
		if c := b.calls[ref{e.Client, e.Call}]; c != nil {
			c.Waits = micro(e.At)
		}
	case history.Lost, history.Enter, history.Leave, history.Read, history.Write:
		if t := b.threadOf(e); t != nil {
			b.ofLock(t, e)
		}
	case history.Up, history.Down:
		b.upOrDown(e)
	case history.FaultBegin, history.FaultEnd:
		b.fault(e)
	}
}

// threadOf returns the thread of the lock that an event is about, nil if that is not known.
func (b *builder) threadOf(e history.Event) *thread {
	return b.threads[ref{cmp.Or(e.Owner, e.Client), e.Lock}]
}

func (b *builder) newThread(e history.Event, set int) *thread {
	at := micro(e.At)
	t := &thread{Lane: b.lanes[clientLane(e.Client)], From: at, To: at, Set: set, Process: b.text(e.Client)}
	b.Threads = append(b.Threads, t)
	return t
}

// reach makes a thread last until then.
func (t *thread) reach(at int64) { t.To = max(t.To, at) }

// leave ends the section that is open.
func (t *thread) leave(at int64) {
	if t.inside != nil {
		t.inside.To, t.inside = at, nil
	}
}

func (b *builder) call(e history.Event) {
	c := &call{Of: b.threadOf(e), Op: b.text(e.Op), From: micro(e.At), To: -1, Waits: -1, number: len(b.Calls)}
	switch {
	case e.Op == history.OpLock || e.Op == history.OpTryLock:
		c.Of = b.newThread(e, b.set(e.Resources))
		c.Thread, b.threads[ref{e.Client, e.Call}] = c.Of, c.Of
	case c.Of == nil:
		c.Thread = b.newThread(e, b.set(e.Resources))
	case e.Owner == "" || e.Owner == e.Client:
		c.Thread = c.Of
	default: // Another process's lock.
		c.Thread = b.newThread(e, c.Of.Set)
	}
	b.calls[ref{e.Client, e.Call}], b.Calls = c, append(b.Calls, c)
	c.Thread.reach(c.From)
}

func (b *builder) ret(e history.Event) {
	c := b.calls[ref{e.Client, e.Call}]
	if c == nil {
		return
	}
	c.To, c.Err, c.Until, c.Fence = micro(e.At), b.text(e.Err), micro(e.Until), e.Fence
	c.Thread.reach(c.To)
	if !e.OK {
		c.Outcome = b.text(cmp.Or(e.Outcome, "failed"))
		return
	}
	c.Outcome = b.text(textOK)
}

func (b *builder) votes(e history.Event) {
	c := b.calls[ref{e.Client, e.Call}]
	if c == nil {
		return
	}
	var said []history.Vote // By node.
	for _, v := range e.Votes {
		if v.Node >= 0 {
			said = append(said, make([]history.Vote, max(0, v.Node+1-len(said)))...)
			said[v.Node] = v
		}
	}
	attempt, last := []any{c.number}, int64(0)
	for _, v := range said {
		if v.Says == "" {
			attempt = append(attempt, 0, 0)
			continue
		}
		at := micro(cmp.Or(v.At, e.At))
		attempt, last = append(attempt, at-last, b.text(v.Says)), at // Differences are shorter.
	}
	b.Attempts = append(b.Attempts, attempt)
}

// ofLock adds what a lock's thread has besides calls.
func (b *builder) ofLock(t *thread, e history.Event) {
	at, to := micro(e.At), micro(max(e.At, e.End))
	t.reach(to)
	switch e.Kind {
	case history.Lost:
		b.Losses = append(b.Losses, []any{&t.number, at, b.text(e.Err)})
	case history.Enter:
		t.inside = &section{t, at, -1}
		b.Sections = append(b.Sections, t.inside)
	case history.Leave:
		t.leave(at)
	default:
		ok, resource := 0, 0
		if e.OK {
			ok = 1
		}
		if len(e.Resources) > 0 {
			resource = b.resource(e.Resources[0])
		}
		b.Accesses = append(b.Accesses, []any{&t.number, b.text(string(e.Kind)), resource, at, to, e.Value, e.Fence, ok})
	}
}

// upOrDown begins or ends a process; with it ends what its locks do, though not how long they keep others out.
func (b *builder) upOrDown(e history.Event) {
	at := micro(e.At)
	if e.Kind == history.Up {
		l := &life{b.lanes[clientLane(e.Client)], at, -1, b.text(e.Client), 0}
		b.lives[e.Client], b.Lives = l, append(b.Lives, l)
		return
	}
	if l := b.lives[e.Client]; l != nil {
		l.To, l.Ended = at, b.text(e.Err)
	}
	process := b.text(e.Client)
	for _, t := range b.Threads {
		if t.Process == process {
			t.leave(at)
		}
	}
}

func (b *builder) fault(e history.Event) {
	name := laneOfAll
	switch {
	case e.Node != nil && *e.Node >= 0:
		name = nodeLane(*e.Node)
	case e.Client != "":
		name = clientLane(e.Client)
	}
	key, at := e.Fault+" of "+name, micro(e.At)
	if e.Kind == history.FaultBegin {
		if e.Detail == "" || strings.HasPrefix(e.Detail, e.Fault+" of ") {
			e.Detail = history.Faults[e.Fault].Says // The other says no more than name, lane and times.
		}
		f := &fault{b.lanes[name], at, -1, b.text(e.Fault), b.text(e.Detail)}
		b.Faults, b.open[key] = append(b.Faults, f), append(b.open[key], f)
		return
	}
	if begun := b.open[key]; len(begun) > 0 {
		begun[0].To = at
		b.open[key] = begun[1:]
	}
}

// violation is marked over the lanes of its clients, or over all if it names none.
func (b *builder) violation(x judge.Violation) {
	m := mark{From: micro(x.From), To: micro(max(x.From, x.To)), Rule: x.Rule, Text: x.Sentence, Lanes: []int{}, Of: -1}
	if x.Resource != "" {
		m.Of = b.resource(x.Resource)
	}
	for _, c := range x.Clients {
		if n, ok := b.lanes[clientLane(c)]; ok && !slices.Contains(m.Lanes, n) {
			m.Lanes = append(m.Lanes, n)
		}
	}
	b.Violations = append(b.Violations, m)
}

// finish computes what needs the whole history.
func (b *builder) finish(holds []judge.Hold, violations []judge.Violation) {
	for _, h := range holds {
		t := b.threads[ref{h.Client, h.Call}]
		x := hold{Thread: t, From: micro(h.From), To: micro(h.To), Ended: b.text(h.Ended), Dead: -1}
		if h.Dead > 0 {
			x.Dead = micro(h.Dead)
		}
		b.Holds = append(b.Holds, x)
		t.reach(max(x.To, x.Dead))
		b.End = max(b.End, x.To)
	}
	b.endPending()
	b.makeTracks()
	for _, x := range violations {
		b.violation(x)
	}
}

// endPending lets the threads of calls that did not return last as long as their process.
func (b *builder) endPending() {
	ends := map[int]int64{}
	for _, l := range b.Lives {
		ends[l.Process] = cmp.Or(max(l.To, 0), b.End)
	}
	for _, c := range b.Calls {
		if end, ok := ends[c.Thread.Process]; ok && c.To < 0 {
			c.Thread.reach(end)
		}
	}
}

// makeTracks puts the threads of a lane beside each other, and numbers them in the order in which they are drawn.
func (b *builder) makeTracks() {
	slices.SortStableFunc(b.Threads, func(x, y *thread) int { return cmp.Compare(x.From, y.From) })
	free := make([][]int64, len(b.Lanes)) // By lane and track: from when on.
	for _, t := range b.Threads {
		tracks := free[t.Lane]
		t.Track = slices.IndexFunc(tracks, func(at int64) bool { return at <= t.From })
		if t.Track < 0 {
			t.Track = len(tracks)
			free[t.Lane] = append(tracks, 0)
		}
		free[t.Lane][t.Track] = t.To + 1
	}
	for i, tracks := range free {
		b.Lanes[i].Tracks = len(tracks)
	}
	slices.SortStableFunc(b.Threads, func(x, y *thread) int {
		return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.Track, y.Track), cmp.Compare(x.From, y.From))
	})
	for i, t := range b.Threads {
		t.number = i
	}
}
