package course

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/plan"
	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
)

// strikeAll makes the plan's faults happen, and returns when its time is over. How long clients took to start is no
// part of that.
func (r *run) strikeAll() {
	begin := time.Duration(r.observer.Now())
	var faults sync.WaitGroup
	for _, f := range r.Plan.Faults {
		faults.Go(func() {
			if r.until(begin + f.At) {
				r.strike(f)
			}
		})
	}
	if r.Plan.Course == plan.Soak {
		r.sample(begin)
	}
	r.until(begin + r.Plan.Duration)
	faults.Wait()
}

// strike makes a fault happen, and undoes it.
func (r *run) strike(f plan.Fault) {
	switch {
	case f.Node >= 0:
		n := r.nodes[f.Node]
		n.busy.Lock()
		defer n.busy.Unlock()
		r.strikeNode(n, f)
	case f.Kind == plan.Most:
		r.strikeAtOnce(first(f, plan.Freeze, len(r.nodes)/2+1))
	case f.Kind == plan.Split:
		r.strikeAtOnce(r.cutOff(f, r.clients, (len(r.nodes)-1)/2))
	case f.Kind == plan.Flush:
		r.strikeAtOnce(first(f, plan.Flush, len(r.nodes)-1))
	case f.Kind == plan.Rolling:
		r.roll(f)
	case f.Kind == plan.Raise:
		r.raise(f)
	case f.Kind == plan.Grow:
		r.grow(f)
	case f.Kind == plan.Crowd:
		r.crowd(f)
	case f.Kind == plan.Alone:
		r.strikeAtOnce(r.cutOff(f, r.clients[f.Client-1:f.Client], f.Nodes))
	default:
		c := r.clients[f.Client-1]
		c.busy.Lock()
		defer c.busy.Unlock()
		if f.Kind == plan.Crash {
			r.crash(f)
		} else {
			r.pause(f)
		}
	}
}

// strikeNode makes a fault of a node, or of the way of one client to it.
func (r *run) strikeNode(n *node, f plan.Fault) {
	client := ""
	if f.Client > 0 {
		client = fmt.Sprint("c", f.Client)
	}
	lasts := f.For
	if f.Kind == plan.Stale {
		r.fail(n.Keep())
		r.rest(plan.Ago)
		lasts -= plan.Ago
	}
	r.begin(f, client)
	r.fail(n.suffer(f))
	switch {
	case f.Kind == plan.Stutter:
		r.stutter(n, lasts)
	case lasts > 0:
		r.rest(lasts)
	}
	r.fail(n.recover(f))
	r.quarantined(n, f.Kind)
	r.end(f, client)
}

// stutter has the server stand still for longer than the node timeout, and run for a moment, again and again.
func (r *run) stutter(n *node, lasts time.Duration) {
	for end := time.Now().Add(lasts); time.Now().Before(end) && r.ctx.Err() == nil; {
		r.fail(n.Hang())
		r.rest(r.Plan.NodeTimeout * 3 / 2)
		r.fail(n.Resume())
		r.rest(r.Plan.NodeTimeout / 2)
	}
}

// quarantined notes for how long the node abstains after such a fault, which is for the largest maxTTL. n.busy is held.
func (r *run) quarantined(n *node, kind string) {
	switch kind {
	case plan.Kill, plan.Empty, plan.Stale, plan.Flush:
		n.votes = time.Duration(r.observer.Now()) + max(r.Plan.MaxTTL, plan.MostMaxTTL) + 1500*time.Millisecond
	}
}

// strikeAtOnce makes faults of several nodes, or of ways to them.
func (r *run) strikeAtOnce(faults []plan.Fault) {
	for _, n := range r.nodes {
		n.busy.Lock()
		defer n.busy.Unlock()
	}
	var over sync.WaitGroup
	for _, f := range faults {
		over.Go(func() { r.strikeNode(r.nodes[f.Node], f) })
	}
	over.Wait()
}

// first is a kind of fault of so many nodes.
func first(f plan.Fault, kind string, nodes int) (all []plan.Fault) {
	for i := range nodes {
		f.Kind, f.Node = kind, i
		all = append(all, f)
	}
	return all
}

// cutOff cuts clients off from so many nodes each, the next ones for each client.
func (r *run) cutOff(f plan.Fault, clients []*client, nodes int) (all []plan.Fault) {
	for i, c := range clients {
		for k := range nodes {
			f.Kind, f.Client, f.Node = plan.Away, c.number, (i*nodes+k)%len(r.nodes)
			all = append(all, f)
		}
	}
	return all
}

// begin and end log a fault. Faults of an instant have no end.
func (r *run) begin(f plan.Fault, client string) { r.logFault(history.FaultBegin, f, client) }

func (r *run) end(f plan.Fault, client string) {
	if f.For > 0 {
		r.logFault(history.FaultEnd, f, client)
	}
}

func (r *run) logFault(kind history.Kind, f plan.Fault, client string) {
	e := history.Event{Kind: kind, Fault: f.Kind, Client: client, Detail: f.String()}
	switch f.Kind {
	case plan.Pause:
		e.Fault = history.Freeze
	case plan.Flush:
		e.Fault = history.Empty
	}
	if f.Node >= 0 {
		e.Node = &f.Node
	}
	r.observer.Log(e)
}

// suffer makes a fault of one node begin.
func (n *node) suffer(f plan.Fault) error {
	switch f.Kind {
	case plan.Kill, plan.Empty, plan.Stale:
		return n.Stop()
	case plan.Flush:
		return n.Flush()
	case plan.Freeze:
		return n.Hang()
	case plan.Clock:
		return n.step(-f.Amount)
	case plan.Rate:
		return n.setRate(f.Amount)
	case plan.Full:
		return n.LimitMemory(1)
	}
	for _, w := range n.waysOf(f) {
		w.meets(troubles[cmp.Or(f.How, f.Kind)].begin)
	}
	return nil
}

// waysOf are those that a fault is of: all, or one client's.
func (n *node) waysOf(f plan.Fault) []way {
	if f.Client > 0 {
		return n.ways[f.Client : f.Client+1]
	}
	return n.ways
}

// recover makes it end.
func (n *node) recover(f plan.Fault) error {
	switch f.Kind {
	case plan.Kill, plan.Empty:
		return n.Restart(f.Kind == plan.Kill)
	case plan.Stale:
		return n.RestartKept()
	case plan.Freeze:
		return n.Resume()
	case plan.Full:
		return n.LimitMemory(0)
	}
	for _, w := range n.waysOf(f) {
		w.meets(troubles[cmp.Or(f.How, f.Kind)].end)
	}
	return nil
}

// callers are far more than the nodes can answer in time.
const callers = 300

// crowd has another process ask for more than the nodes can answer.
func (r *run) crowd(f plan.Fault) {
	cfg := protocol.Config{
		Client: "crowd", Observer: r.addr, Start: r.start, Quiet: true, Callers: callers, Nodes: r.waysOf(&client{number: r.crowdNumber()}), TTL: int64(r.Plan.TTL), NodeTimeout: int64(r.Plan.NodeTimeout),
	}
	r.begin(f, "")
	p, err := start(r.Command, cfg)
	if err != nil {
		r.fail(err)
		return
	}
	r.rest(f.For)
	p.ends(r.givenUp())
	r.end(f, "")
}

// roll restarts all servers one by one, about one a second. One that has forgotten locks just before is not admitted.
func (r *run) roll(f plan.Fault) {
	begin := time.Duration(r.observer.Now())
	for i, n := range r.nodes {
		n.busy.Lock()
		f.Node = i
		r.begin(f, "")
		r.fail(n.Restart(true))
		if time.Duration(r.observer.Now()) < n.votes {
			r.quarantined(n, plan.Kill)
		} else {
			r.admit(i)
		}
		r.end(f, "")
		n.busy.Unlock()
		r.until(begin + time.Duration(i+1)*time.Second)
	}
}
