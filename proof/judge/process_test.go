package judge

import (
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

// work does one thing, and then the next.
func (p *process) work() {
	w := p.w
	if w.now > w.until {
		return
	}
	names := []string{"r0"}
	if n := w.plain; n > 1 {
		names = []string{[]string{"r0", "r1", "r2"}[w.rng.IntN(n)]}
		if w.chance(15) {
			names = []string{"r0", "r1"}
		}
	}
	if w.chance(30) {
		p.try(names)
	} else {
		p.wait(names)
	}
}

func (p *process) rest() { p.later(p.w.rng.Int64N(40*unit), p.work) }

// try is TryLock.
func (p *process) try(names []string) {
	call := p.begin(history.OpTryLock, history.Event{Resources: names, TTL: ttl, Bound: p.w.now + 4*timeout})
	p.attempt(call, p.use, func(outcome string) { p.end(call, history.Event{Outcome: outcome}, p.rest) })
}

// attempt asks the server once.
func (p *process) attempt(call history.Event, got func(*grant), refused func(outcome string)) {
	w := p.w
	p.later(w.soon(), func() {
		g, start, heard := &grant{p: p, call: call.Call, resources: call.Resources, minHold: call.MinHold}, w.now, !w.chance(4)
		w.later(w.soon(), func() {
			free := w.grantable(g.resources)
			if free {
				w.grant(g, start)
			}
			switch {
			case !heard: // Nobody hears the answer: what it has left is removed later.
				p.later(timeout, func() { refused(history.OutcomeNoQuorum) })
				w.later(w.rng.Int64N(2*timeout), func() { w.remove(g) })
			case !free:
				p.later(w.soon(), func() { refused(history.OutcomeTaken) })
			default:
				p.later(w.soon(), func() { p.granted(call, g, got, refused) })
			}
		})
	})
}

// granted is when the answer is there. If it is too late, it is none.
func (p *process) granted(call history.Event, g *grant, got func(*grant), refused func(string)) {
	if p.w.now+g.minHold >= g.until {
		p.w.later(0, func() { p.w.remove(g) })
		refused(history.OutcomeNoQuorum)
		return
	}
	g.used = p.w.now
	p.end(call, history.Event{OK: true, Until: g.until, Fence: g.fence, Holder: g.digest()}, func() { got(g) })
}

// wait is Lock: it stands in line with others of its process, and only the first of a line asks.
func (p *process) wait(names []string) {
	patience := p.w.rng.Int64N(ttl) + 20*unit
	call := p.begin(history.OpLock, history.Event{Resources: names, TTL: ttl, Bound: p.w.now + patience + 4*timeout})
	q := &waiting{p: p, call: call, gives: p.w.now + patience, use: p.use, then: p.rest}
	for _, name := range names {
		if len(p.lines[name]) > 0 {
			q.note()
			break
		}
	}
	for _, name := range names {
		p.lines[name] = append(p.lines[name], q)
	}
	q.next()
}

func (q *waiting) note() {
	if !q.noted {
		q.noted = true
		q.p.write(history.Event{Kind: history.Wait, Call: q.call.Call})
	}
}

// next asks if it is this one's turn, and gives up when it has waited for too long.
func (q *waiting) next() {
	p := q.p
	leave := func() {
		for _, name := range q.call.Resources {
			p.lines[name] = slices.DeleteFunc(p.lines[name], func(other *waiting) bool { return other == q })
		}
	}
	if p.w.now > q.gives {
		leave()
		p.end(q.call, history.Event{Outcome: history.OutcomeCancelled}, q.then)
		return
	}
	for _, name := range q.call.Resources {
		if p.lines[name][0] != q {
			p.later(p.w.soon(), q.next)
			return
		}
	}
	p.attempt(q.call, func(g *grant) {
		leave()
		q.use(g)
	}, func(outcome string) {
		if outcome == history.OutcomeTaken {
			p.write(history.Event{Kind: history.Votes, Call: q.call.Call, Votes: refusals})
		}
		q.note()
		p.later(p.w.soon(), q.next)
	})
}

// use does something under the lock, and gives it back, or not.
func (p *process) use(g *grant) {
	w := p.w
	switch lot := w.rng.IntN(100); {
	case lot < 20:
		g.kept, g.quiet, g.cut = true, w.chance(50), w.chance(30)
		p.write(history.Event{Kind: history.Keep, Lock: g.call})
		p.keep(g)
		p.signal(g)
		p.section(g, func() {
			p.later(w.rng.Int64N(2*ttl), func() {
				if g.lost && w.chance(50) {
					p.rest()
				} else {
					p.unlock(g)
				}
			})
		})
	case lot < 40:
		p.section(g, func() { p.extend(g, true, func() { p.section(g, func() { p.unlock(g) }) }) })
	case lot < 45: // The lock expires, and its holder goes on.
		p.section(g, func() { p.later(w.rng.Int64N(2*ttl), func() { p.section(g, p.rest) }) })
	case lot < 55:
		other := w.processes[w.rng.IntN(len(w.processes))]
		p.section(g, func() { other.later(w.rng.Int64N(2*ttl), func() { other.release(g) }) })
		p.rest()
	case lot < 60: // An extension races with the release.
		p.section(g, func() {
			p.extend(g, true, func() {})
			p.unlock(g)
		})
	default:
		p.section(g, func() { p.unlock(g) })
	}
}

// section reads the register, and writes it plus one. If the lock is over, it says nothing of itself: what it does then
// has to be refused.
func (p *process) section(g *grant, then func()) {
	if p.w.now < g.until {
		p.later(p.w.soon()/4, func() { p.write(history.Event{Kind: history.Enter, Lock: g.call}) })
	}
	p.operate(g, history.Read, 0, func(v int64, ok bool) {
		if !ok {
			then()
			return
		}
		p.operate(g, history.Write, v+1, func(int64, bool) { then() })
	})
}

func (p *process) operate(g *grant, kind history.Kind, value int64, then func(v int64, ok bool)) {
	w := p.w
	name := g.resources[0]
	p.later(w.soon(), func() {
		asked := w.now
		w.later(w.soon(), func() {
			r := w.resources[name]
			e := history.Event{Kind: kind, Lock: g.call, Resources: []string{name}, Fence: g.fence, Value: value}
			if e.OK = g.fence >= r.highest; e.OK {
				r.highest = g.fence
				if kind == history.Write {
					r.value = value
				}
				e.Value = r.value
			}
			e.At, e.Client, e.End = asked, p.name, w.now
			w.events = append(w.events, e)
			p.later(w.soon(), func() { then(e.Value, e.OK) })
		})
	})
}

// extend is Extend, or with told false an extension of which nothing is written.
func (p *process) extend(g *grant, told bool, then func()) {
	w := p.w
	var call history.Event
	if told {
		call = p.begin(history.OpExtend, history.Event{Lock: g.call, TTL: ttl})
	}
	end := func(e history.Event) {
		if told {
			p.end(call, e, then)
		} else {
			p.later(w.soon(), then)
		}
	}
	p.later(w.soon()/4, func() {
		start, old := w.now, g.until
		if g.over || start >= old {
			end(history.Event{Outcome: history.OutcomeLost})
			return
		}
		heard := !g.cut && !w.chance(10)
		w.later(w.soon(), func() {
			had := w.has(g)
			for _, name := range g.resources {
				if r := w.resources[name]; had {
					r.expires = max(r.expires, w.now+ttl)
				}
			}
			p.later(w.soon(), func() {
				switch {
				case !heard:
					p.later(timeout, func() { end(history.Event{Outcome: history.OutcomeNoQuorum}) })
				case g.over, w.now >= old:
					end(history.Event{Outcome: history.OutcomeLost})
				case !had:
					g.over, g.lost = true, true
					end(history.Event{Outcome: history.OutcomeLost})
				default:
					g.until = max(g.until, start+ttl-drift)
					end(history.Event{OK: true, Until: g.until})
				}
			})
		})
	})
}

// keep extends the lock again and again, as long as it is held.
func (p *process) keep(g *grant) {
	p.later(ttl/3, func() {
		if !g.over && !g.ended {
			p.extend(g, !g.quiet, func() { p.keep(g) })
		}
	})
}

// signal tells when the lock ends.
func (p *process) signal(g *grant) {
	p.later(unit, func() {
		switch {
		case g.lost || !g.over && p.w.now >= g.until:
			g.over, g.lost = true, true
			p.write(history.Event{Kind: history.Lost, Lock: g.call, Until: g.until, Outcome: history.OutcomeLost})
		case !g.over:
			p.signal(g)
		}
	})
}

func (p *process) unlock(g *grant) {
	w := p.w
	call := p.begin(history.OpUnlock, history.Event{Lock: g.call, Until: g.until, Bound: w.now + 3*timeout})
	p.later(w.soon()/4, func() {
		held, heard := !g.over && w.now < g.until, !w.chance(5)
		g.over = true
		w.later(w.soon(), func() {
			had := w.leave(g)
			p.answer(call, held && had, heard)
		})
	})
}

// release is Release, by any process.
func (p *process) release(g *grant) {
	w := p.w
	call := p.begin(history.OpRelease, history.Event{Lock: g.call, Owner: g.p.name, Bound: w.now + 3*timeout})
	p.later(w.soon()/4, func() {
		heard := !w.chance(5)
		w.later(w.soon(), func() {
			had := w.remove(g)
			p.answer(call, had, heard)
		})
	})
}

func (p *process) answer(call history.Event, ok, heard bool) {
	then := func() {}
	if call.Op == history.OpUnlock {
		then = p.rest
	}
	e := history.Event{OK: ok}
	if !ok {
		e.Outcome = history.OutcomeLost
	}
	if heard {
		p.later(p.w.soon(), func() { p.end(call, e, then) })
		return
	}
	p.later(timeout, func() { p.end(call, history.Event{Outcome: history.OutcomeNoQuorum}, then) })
}
