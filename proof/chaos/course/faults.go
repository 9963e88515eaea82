package course

import (
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
		r.begin(f, "")
		r.fail(n.suffer(f))
		if f.For > 0 {
			r.rest(f.For)
		}
		r.fail(n.recover(f))
		r.end(f, "")
	case f.Kind == plan.Most:
		r.strikeMany(f, plan.Freeze, len(r.nodes)/2+1)
	case f.Kind == plan.Flush:
		r.strikeMany(f, plan.Flush, len(r.nodes)-1)
	case f.Kind == plan.Rolling:
		r.roll(f)
	case f.Kind == plan.Raise:
		r.raise(f)
	case f.Kind == plan.Crowd:
		r.crowd(f)
	case f.Kind == plan.Netns:
		name := fmt.Sprint("c", f.Client)
		r.begin(f, name)
		r.fail(r.namespace.plug(false))
		r.rest(f.For)
		r.fail(r.namespace.plug(true))
		r.end(f, name)
	case f.Client > 0:
		c := r.clients[f.Client-1]
		c.busy.Lock()
		defer c.busy.Unlock()
		switch f.Kind {
		case plan.Crash:
			r.crash(f)
		case plan.Pause:
			r.pause(f)
		}
	}
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
	switch p := n.Proxy(); f.Kind {
	case plan.Kill, plan.Empty:
		return n.Stop()
	case plan.Flush:
		return n.Flush()
	case plan.Freeze:
		return n.Hang()
	case plan.Reset:
		p.Reset()
	case plan.Cut:
		p.Kill()
	case plan.Drop:
		p.DropReplies(true)
	case plan.Slow:
		p.SetDelay(0, 60*time.Millisecond)
	case plan.Refuse:
		p.Refuse(true)
		p.Reset()
	case plan.Hole:
		p.BlackHole(true)
	case plan.Clock:
		return n.step(-f.Amount)
	}
	return nil
}

// recover makes it end.
func (n *node) recover(f plan.Fault) error {
	switch p := n.Proxy(); f.Kind {
	case plan.Kill, plan.Empty:
		return n.Restart(f.Kind == plan.Kill)
	case plan.Freeze:
		return n.Resume()
	case plan.Drop:
		// The connections must not survive it: TCP may end, but never delivers what comes after bytes it has lost.
		p.Refuse(true)
		p.Reset()
		p.DropReplies(false)
		p.Refuse(false)
	case plan.Slow:
		p.Reset()
		n.calm()
	case plan.Refuse:
		p.Refuse(false)
	case plan.Hole:
		p.BlackHole(false)
	}
	return nil
}

// crowd has another process ask for more than the nodes can answer.
func (r *run) crowd(f plan.Fault) {
	cfg := protocol.Config{Client: "crowd", TTL: int64(r.Plan.TTL), NodeTimeout: int64(r.Plan.NodeTimeout)}
	for _, n := range r.nodes {
		cfg.Nodes = append(cfg.Nodes, n.Addr())
	}
	r.begin(f, "")
	p, err := start(r.Crowd, cfg)
	if err != nil {
		r.fail(err)
		return
	}
	r.rest(f.For)
	_ = p.stdin.Close()
	select {
	case <-p.gone:
	case <-r.givenUp():
		p.kill()
	}
	r.end(f, "")
}

// strikeMany has a kind of fault strike the first nodes at once.
func (r *run) strikeMany(f plan.Fault, kind string, nodes int) {
	f.Kind = kind
	var struck, recovered sync.WaitGroup
	for i, n := range r.nodes[:nodes] {
		n.busy.Lock()
		struck.Add(1)
		recovered.Go(func() {
			defer n.busy.Unlock()
			g := f
			g.Node = i
			r.begin(g, "")
			r.fail(n.suffer(g))
			struck.Done()
			struck.Wait() // Nobody is back before all have been struck.
			r.rest(f.For)
			r.fail(n.recover(g))
			r.end(g, "")
		})
	}
	recovered.Wait()
}

// roll restarts all servers one by one, about one a second.
func (r *run) roll(f plan.Fault) {
	begin := time.Duration(r.observer.Now())
	for i, n := range r.nodes {
		n.busy.Lock()
		f.Node = i
		r.begin(f, "")
		r.fail(n.Restart(true))
		r.admit(i)
		r.end(f, "")
		n.busy.Unlock()
		r.until(begin + time.Duration(i+1)*time.Second)
	}
}
