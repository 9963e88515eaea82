package timeline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

// A builder makes a scene of events, which it gets in the order of their times.
type builder struct {
	scene

	lanes     map[string]int
	resources map[string]int
	sets      map[string]int
	texts     map[string]int

	threads map[ref]int   // By the acquisition.
	calls   map[ref]int   // All calls.
	locks   map[int]*lock // By thread.
	inside  map[int]int   // By thread: the section that is open.
	lives   map[string]int
	open    map[string][]int // The faults that last, by their names and lanes.
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
		threads: map[ref]int{}, calls: map[ref]int{}, locks: map[int]*lock{}, inside: map[int]int{},
		lives: map[string]int{}, open: map[string][]int{},
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
	var names []string
	for name := range clients {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int { return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) })
	for _, name := range names {
		add(clientLane(name), name, "client")
	}
	for n := range nodes {
		add(nodeLane(n), nodeLane(n), "node")
	}
}

func (b *builder) text(s string) int {
	return index(b.texts, s, func() { b.Texts = append(b.Texts, s) })
}

func (b *builder) resource(s string) int {
	return index(b.resources, s, func() { b.Resources = append(b.Resources, s) })
}

func (b *builder) set(resources []string) int {
	var all []int
	for _, r := range resources {
		all = append(all, b.resource(r))
	}
	slices.Sort(all)
	return index(b.sets, fmt.Sprint(all), func() { b.Sets = append(b.Sets, all) })
}

// index returns the number of a text, which it may get now.
func index(known map[string]int, s string, add func()) int {
	n, ok := known[s]
	if !ok {
		n = len(known)
		known[s] = n
		add()
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
		if c, ok := b.calls[ref{e.Client, e.Call}]; ok {
			b.Calls[c].Waits = micro(e.At)
		}
	case history.Keep, history.Lost, history.Enter, history.Leave, history.Read, history.Write:
		if t, ok := b.threadOf(e); ok {
			b.ofLock(t, e)
		}
	case history.Up, history.Down:
		b.upOrDown(e)
	case history.FaultBegin, history.FaultEnd:
		b.fault(e)
	}
}

// threadOf returns the thread of the lock that an event is about.
func (b *builder) threadOf(e history.Event) (int, bool) {
	t, ok := b.threads[ref{cmp.Or(e.Owner, e.Client), e.Lock}]
	return t, ok
}

func (b *builder) newThread(e history.Event) int {
	b.Threads = append(b.Threads, thread{
		Lane: b.lanes[clientLane(e.Client)], From: micro(e.At), To: micro(e.At),
		Set: b.set(e.Resources), Process: b.text(e.Client),
	})
	return len(b.Threads) - 1
}

// reach makes a thread last until then.
func (b *builder) reach(t int, at int64) { b.Threads[t].To = max(b.Threads[t].To, at) }

func (b *builder) call(e history.Event) {
	c := call{Of: -1, Op: b.text(e.Op), From: micro(e.At), To: -1, Waits: -1}
	switch about, known := b.threadOf(e); {
	case e.Op == history.OpLock || e.Op == history.OpTryLock:
		c.Thread = b.newThread(e)
		c.Of = c.Thread
		b.threads[ref{e.Client, e.Call}] = c.Thread
	case !known:
		c.Thread = b.newThread(e)
	case e.Owner == "" || e.Owner == e.Client:
		c.Thread, c.Of = about, about
	default: // Another process's lock.
		e.Resources = b.names(b.Threads[about].Set)
		c.Thread, c.Of = b.newThread(e), about
	}
	if l := b.locks[c.Of]; l != nil && (e.Op == history.OpUnlock || e.Op == history.OpRelease) {
		l.told(micro(e.Until))
		how := "released"
		if c.Thread != c.Of {
			how += " by " + e.Client
		}
		l.over(micro(e.At), how)
	}
	b.calls[ref{e.Client, e.Call}] = len(b.Calls)
	b.Calls = append(b.Calls, c)
	b.reach(c.Thread, c.From)
}

func (b *builder) names(set int) []string {
	var all []string
	for _, r := range b.Sets[set] {
		all = append(all, b.Resources[r])
	}
	return all
}

func (b *builder) ret(e history.Event) {
	n, ok := b.calls[ref{e.Client, e.Call}]
	if !ok {
		return
	}
	c := &b.Calls[n]
	c.To, c.Err, c.Until, c.Fence = micro(e.At), b.text(e.Err), micro(e.Until), e.Fence
	b.reach(c.Thread, c.To)
	if !e.OK {
		c.Outcome = b.text(cmp.Or(e.Outcome, "failed"))
		return
	}
	c.Outcome = b.text(textOK)
	switch e.Op {
	case history.OpLock, history.OpTryLock:
		b.locks[c.Thread] = &lock{acquired: c.To, until: c.Until}
	case history.OpExtend:
		if l := b.locks[c.Of]; l != nil {
			l.renewals = append(l.renewals, renewal{c.To, c.Until})
		}
	}
}

func (b *builder) votes(e history.Event) {
	n, ok := b.calls[ref{e.Client, e.Call}]
	if !ok {
		return
	}
	a := attempt{Call: n}
	for _, v := range e.Votes {
		if v.Node < 0 {
			continue
		}
		for len(a.Votes) <= v.Node {
			a.Votes = append(a.Votes, vote{})
		}
		at := v.At
		if at == 0 {
			at = e.At
		}
		a.Votes[v.Node] = vote{At: micro(at), Says: b.text(v.Says)}
	}
	b.Attempts = append(b.Attempts, a)
}

// ofLock adds what a lock's thread has besides calls.
func (b *builder) ofLock(t int, e history.Event) {
	at := micro(e.At)
	b.reach(t, max(at, micro(e.End)))
	l := b.locks[t]
	if l != nil {
		l.told(micro(e.Until))
	}
	switch e.Kind {
	case history.Keep:
		if l != nil {
			l.kept = true
		}
	case history.Lost:
		b.Losses = append(b.Losses, loss{t, at, b.text(e.Err)})
		if l != nil {
			l.over(at, "the holder was told of its loss")
		}
	case history.Enter:
		b.inside[t] = len(b.Sections)
		b.Sections = append(b.Sections, section{t, at, -1})
	case history.Leave:
		if s, ok := b.inside[t]; ok {
			b.Sections[s].To = at
			delete(b.inside, t)
		}
	default:
		a := access{Thread: t, Op: b.text(string(e.Kind)), From: at, To: max(at, micro(e.End)), Value: e.Value, Fence: e.Fence}
		if len(e.Resources) > 0 {
			a.Resource = b.resource(e.Resources[0])
		}
		if e.OK {
			a.OK = 1
		}
		b.Accesses = append(b.Accesses, a)
	}
}
