package judge

import (
	"fmt"
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

const hold = ttl / 3

// digest is what others are told of the lock.
func (g *grant) digest() string { return fmt.Sprint("digest of ", g.p.name, g.call) }

// refuses has all nodes say who has the first of the resources.
func (p *process) refuses(call history.Event) {
	var votes []history.Vote
	for n := range p.w.header.Nodes {
		v := history.Vote{Node: n, Says: "taken"}
		if g := p.w.resources[call.Resources[0]].token; g != nil {
			v.Holder, v.Owner = g.digest(), g.p.name
		}
		votes = append(votes, v)
	}
	p.write(history.Event{Kind: history.Votes, Call: call.Call, Votes: votes})
}

// feature uses one of the features, on resources of its own.
func (p *process) feature() {
	w := p.w
	switch {
	case w.now > w.until:
		return
	case w.chance(30):
		p.once()
	case w.chance(30):
		p.limited()
	case w.chance(30):
		p.makesRoom(p.next)
		if w.chance(50) { // Another call of this process comes and waits.
			p.later(w.rng.Int64N(ttl/2), func() { p.makesRoom(func() {}) })
		}
	case w.chance(60):
		p.permit()
	default:
		for i := range int64(3) {
			p.later(i*(ttl+5*unit), p.guarded)
		}
		p.next()
	}
}

func (p *process) next() { p.later(p.w.rng.Int64N(60*unit), p.feature) }

// resource makes one that is there when it is first asked for.
func (w *world) resource(name string) []string {
	if w.resources[name] == nil {
		w.resources[name] = &resource{}
	}
	return []string{name}
}

// tryFor is TryLock by a call that asks for something.
func (p *process) tryFor(asks history.Event, got func(g *grant), refused func()) {
	asks.TTL, asks.Bound = ttl, p.w.now+4*timeout
	call := p.begin(history.OpTryLock, asks)
	p.attempt(call, got, func(outcome string) {
		if outcome == history.OutcomeTaken {
			p.refuses(call)
		}
		p.end(call, history.Event{Outcome: outcome}, refused)
	})
}

// once has a lock with min hold, which it unlocks early, leaves to another process, or leaves to expire.
func (p *process) once() {
	p.tryFor(history.Event{Resources: p.w.resource("once"), MinHold: hold}, func(g *grant) {
		switch {
		case p.w.chance(60):
			p.later(p.w.soon(), func() { p.unlock(g) })
		case p.w.chance(50):
			p.later(p.w.soon(), func() { p.release(g) })
		}
		p.next()
	}, p.next)
}

// limited has a lock whose hold ends by max hold and stop time.
func (p *process) limited() {
	asks := history.Event{Resources: p.w.resource("limited"), MaxHold: hold + p.w.rng.Int64N(ttl), StopTime: ttl / 4}
	p.tryFor(asks, func(g *grant) {
		from := p.w.now
		p.write(history.Event{Kind: history.Keep, Lock: g.call})
		p.keep(g)
		var look func()
		look = func() {
			switch {
			case g.over || g.lost:
			case p.w.now >= g.until-asks.StopTime || p.w.now >= from+asks.MaxHold:
				g.ended = true
				p.write(history.Event{Kind: history.Lost, Lock: g.call, Until: g.until, Outcome: history.OutcomeCancelled})
				p.later(p.w.rng.Int64N(ttl), func() { p.unlock(g) })
			case p.w.chance(1):
				p.unlock(g)
			default:
				p.later(unit, look)
				return
			}
			p.next()
		}
		look()
	}, p.next)
}

// makesRoom has a lock until another call of the process waits for it.
func (p *process) makesRoom(then func()) {
	names := p.w.resource("room " + p.name)
	patience := p.w.rng.Int64N(ttl) + 20*unit
	call := p.begin(history.OpLock, history.Event{Resources: names, TTL: ttl, Bound: p.w.now + patience + 4*timeout})
	q := &waiting{p: p, call: call, gives: p.w.now + patience, then: then}
	q.use = func(g *grant) {
		p.write(history.Event{Kind: history.Wanted, Lock: g.call})
		var look func()
		look = func() {
			wanted := slices.ContainsFunc(p.lines[names[0]], func(q *waiting) bool { return q.noted })
			if wanted {
				p.write(history.Event{Kind: history.Wanted, Lock: g.call, OK: true})
			}
			if wanted || p.w.now >= g.until || p.w.chance(2) {
				p.unlock(g)
				then()
				return
			}
			p.later(unit, look)
		}
		look()
	}
	p.lines[names[0]] = append(p.lines[names[0]], q)
	q.next()
}

// permit has one of two permits, of which there are two in a min hold: whichever slot is free.
func (p *process) permit() {
	w := p.w
	free := []string{}
	for _, slot := range []string{"sem#0", "sem#1"} {
		if w.resource(slot); w.grantable([]string{slot}) {
			free = append(free, slot)
		}
	}
	if len(free) == 0 {
		p.next()
		return
	}
	asks := history.Event{Resources: free[:1], Permits: 2, MinHold: hold}
	p.tryFor(asks, func(g *grant) {
		if w.chance(80) {
			p.later(w.rng.Int64N(hold), func() { p.unlock(g) })
		}
		p.next()
	}, p.next)
}

// guarded comes to the process's Guard with a lock that may be over.
func (p *process) guarded() {
	name := "guard " + p.name
	p.tryFor(history.Event{Resources: p.w.resource(name)}, func(g *grant) {
		p.later(p.w.rng.Int64N(2*ttl), func() {
			r, e := p.w.resources[name], history.Event{Kind: history.Guarded, Lock: g.call, Resources: []string{name}, Fence: g.fence}
			e.OK = g.fence >= r.highest
			r.highest = max(r.highest, g.fence)
			e.At, e.Client, e.End = p.w.now, p.name, p.w.now
			p.w.events = append(p.w.events, e)
		})
	}, func() {})
}

// remind returns a mutation of the first event of a kind for which f is true.
func remind(kind history.Kind, f func(r *run, e *history.Event) bool) func(r *run) ([]history.Event, bool) {
	return once(func(r *run, e *history.Event) bool { return e.Kind == kind && f(r, e) })
}

// ask returns a mutation of the call that got the first lock for which f is true.
func ask(f func(r *run, l *lock, e *history.Event) bool) func(r *run) ([]history.Event, bool) {
	return remind(history.Call, func(r *run, e *history.Event) bool {
		l := r.locks[id{e.Client, e.Call}]
		return l != nil && f(r, l, e)
	})
}

// follows is the next lock on the resource of one.
func (r *run) follows(l *lock) *lock {
	all := r.byResource[l.resources[0]]
	if i := slices.Index(all, l); i+1 < len(all) {
		return all[i+1]
	}
	return nil
}

// idle reports whether nothing is excused of a client then.
func (r *run) idle(client string, t int64) bool {
	return len(r.stood(client, history.Freeze, history.Stall)) == 0 && r.slack(client, t) == r.header.SignalSlack
}

var featureMutations = []mutation{
	{"min hold", "a longer one", ask(func(r *run, l *lock, e *history.Event) bool {
		next := r.follows(l)
		if e.MinHold == 0 || next == nil || len(l.releases) > 0 {
			return false
		}
		e.MinHold = next.got - r.used(l) + 1
		return true
	})},
	{"hold limits", "a shorter max hold", ask(func(r *run, l *lock, e *history.Event) bool {
		if e.MaxHold == 0 || l.lost == nil || !r.idle(e.Client, l.lost.At-r.header.SignalSlack-1) || l.lost.At-l.got < 2*r.header.SignalSlack {
			return false
		}
		e.MaxHold = l.lost.At - l.got - r.header.SignalSlack - 1
		return l.lost.At > l.keptFrom+r.header.SignalSlack
	})},
	{"hold limits", "a longer stop time", ask(func(r *run, l *lock, e *history.Event) bool {
		if e.StopTime == 0 || l.lost == nil || !r.idle(e.Client, l.lost.At-r.header.SignalSlack-1) {
			return false
		}
		e.StopTime = l.until - l.lost.At + r.header.SignalSlack + 1
		return l.lost.At > l.keptFrom+r.header.SignalSlack
	})},
	{"wanted", "nobody is told", func(r *run) ([]history.Event, bool) {
		for _, e := range r.events {
			l := r.lockOf(e)
			if e.Kind != history.Wanted || !e.OK {
				continue
			}
			late := slices.ContainsFunc(r.inOrder, func(c *call) bool {
				due := r.excused(l.client, c.wait, r.slack(l.client, c.wait))
				return c.client == l.client && c.begin.Resources != nil && c.begin.Resources[0] == l.resources[0] && c.wait > l.got+unit &&
					c.wait < e.At && min(l.until, c.returned(r), r.lived(l.client)) > due && min(c.returned(r), r.lived(l.client)) > due
			})
			if late {
				return r.edit(func(o *history.Event) { // Nor is it unlocked.
					if o.Kind == history.Wanted && o.OK && r.lockOf(*o) == l || slices.ContainsFunc(l.unlocks, func(c *call) bool { return c.is(o) }) {
						*o = history.Event{}
					}
				}), true
			}
		}
		return nil, false
	}},
	{"permits", "there is only one", func(r *run) ([]history.Event, bool) {
		two := false
		for _, a := range r.byResource["sem#0"] {
			for _, b := range r.byResource["sem#1"] {
				two = two || a.got < b.got && b.got < a.over && b.over > b.got
			}
		}
		return r.edit(func(e *history.Event) { e.Permits = min(e.Permits, 1) }), two
	}},
	{"permits", "a longer period", func(r *run) ([]history.Event, bool) {
		slot := slices.DeleteFunc(slices.Clone(r.byResource["sem#0"]), func(l *lock) bool { return len(l.releases) > 0 })
		return r.edit(func(e *history.Event) {
			if e.Permits > 0 {
				e.MinHold = int64(1) << 40
			}
		}), len(slot) > 2
	}},
	{"guard", "an earlier one passes", remind(history.Guarded, func(_ *run, e *history.Event) bool {
		passes := !e.OK
		e.OK = true
		return passes
	})},
	{"guard", "a later one is refused", remind(history.Guarded, func(r *run, e *history.Event) bool {
		if !e.OK || slices.ContainsFunc(r.events, func(o history.Event) bool {
			return o.Kind == history.Guarded && o.OK && o.Resources[0] == e.Resources[0] && o.Fence > e.Fence && o.At <= e.End
		}) {
			return false
		}
		e.OK = false
		return true
	})},
	{"owners", "another label", remind(history.Votes, func(r *run, e *history.Event) bool {
		if e.Votes[0].Holder == "" || !slices.ContainsFunc(r.events, func(o history.Event) bool { return o.Holder == e.Votes[0].Holder }) {
			return false
		}
		e.Votes = slices.Clone(e.Votes)
		e.Votes[0].Owner = "nobody"
		return true
	})},
}
