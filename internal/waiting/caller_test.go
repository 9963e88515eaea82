package waiting

import (
	"slices"
	"time"
)

// This file does what redlock/wait.go, waiter.go and wake.go do.

// begins has a call begin: it asks at once, unless others wait here.
func (w *world) begins(c *caller) {
	c.began = w.now
	p := w.procs[c.process]
	behind, resting := false, false
	if !c.tries {
		c.w = w.waiter(c)
		w.do(p, func(q *Queue) { behind, resting = q.JoinBehind(c.w) })
	}
	if resting {
		c.phase = rests
		return
	}
	if behind {
		w.startsToWait(c, nil)
		return
	}
	for _, o := range w.calls {
		if !c.tries && o.process == c.process && o.wants&c.wants != 0 && w.isInLine(o) {
			w.wrong("a call asks at once, though others of its process wait")
		}
	}
	for r := range resources {
		if !c.tries && in(c.wants, r) && p.gave[r] > w.now {
			w.wrong("a call asks at once, though its process has just woken another one")
		}
	}
	c.first = true
	w.asks(c, request{})
}

func (w *world) keysOf(c *caller) (keys []any) {
	for r := range resources {
		if in(c.wants, r) {
			keys = append(keys, key(r))
		}
	}
	return keys
}

func (w *world) waiter(c *caller) *Waiter {
	u := NewWaiter(w.keysOf(c), c.delay, w.at(), func() { c.signal = true })
	if c.turn > 0 {
		u.Caller = c
	}
	return u
}

func (w *world) asks(c *caller, q request) {
	w.tokens++
	c.token, c.phase = w.tokens, asking
	q.kind, q.call, q.token, q.wants = locks, c.id, c.token, c.wants
	p := w.procs[c.process]
	p.out = append(p.out, q)
}

// startsToWait has a call wait that is in line.
func (w *world) startsToWait(c *caller, a *answer) {
	p := w.procs[c.process]
	p.wants = true
	if a != nil && p.listens {
		w.do(p, func(q *Queue) { q.Again(c.w) })
	}
	c.t = NewTimer(c.w, Pace{Limit: 10 * time.Millisecond, MaxWait: time.Minute}, half)
	c.t.Note(false, true)
	c.t.SetTick(false, c.delay, w.at())
	w.expect(c, ByTick, a)
	c.phase, c.signal = waits, true
}

// expect has the timer wait for what an attempt has seen.
func (w *world) expect(c *caller, why Reason, a *answer) {
	if a == nil {
		c.t.ExpectNothing()
		return
	}
	no := Refusal{Holder: a.holder()}
	lefts := make([]time.Duration, 0, len(a.votes))
	for _, v := range a.votes {
		if v.yes {
			v.left = 0
		} else if v.holder == no.Holder {
			no.Left = max(no.Left, v.left)
		}
		lefts = append(lefts, v.left)
	}
	slices.Sort(lefts)
	no.Free = lefts[len(lefts)/2]
	no.Known = no.Free < ttl
	c.t.Expect(why, no, w.at())
}

func (a *answer) holder() string {
	for _, v := range a.votes {
		if v.holder != "" {
			return v.holder
		}
	}
	return ""
}

// gaveWay reports whether a node keeps the resource for another process.
func (a *answer) gaveWay() bool {
	return slices.ContainsFunc(a.votes, func(v vote) bool { return !v.yes && v.holder == "" })
}

// due is when a call that waits is to look: when it was told to, or when it has said itself.
func (w *world) due(c *caller) (at time.Duration, any bool) {
	if c.signal {
		return w.now, true
	}
	return max(c.alarm, w.now), c.alarm != 0
}

// looks has a call do what is due, or sleep until something is.
func (w *world) looks(c *caller) {
	p := w.procs[c.process]
	if c.phase == rests {
		if c.signal = false; !w.receives(c) {
			w.startsToWait(c, nil)
		}
		return
	}
	s, passed := p.q.Sleep(c.w)
	if passed != nil {
		w.gets(c, passed.(*caller))
		return
	}
	c.s, c.signal, c.alarm = s, false, 0
	why, at := c.t.Due(c.s)
	c.why = why
	switch {
	case at.IsZero():
		return
	case at.After(w.at()):
		c.alarm = at.Sub(epoch)
		return
	case w.receives(c):
		w.wrong("a call is passed a lock as it looks")
	}
	switch {
	case why == ByKeep:
		w.do(p, func(q *Queue) { q.PassOn(c.w) })
		w.checkPause(c)
		c.signal = true
	case !c.s.Head:
		age := 2 * (c.delay + ms)
		if c.s.Alone {
			age = c.delay - ms
		}
		if answer := p.q.Answer(c.w, w.at().Add(-age)); answer != nil {
			w.waitsOn(c, nil)
			return
		}
		w.asks(c, request{})
	default:
		yields := why == ByHead || p.listens && why != ByRelease
		line := yields || p.listens
		w.do(p, func(q *Queue) { q.Begin(c.w, line) })
		w.asks(c, request{line: line, yields: yields})
	}
}

// turnedAway has a call look, and be turned away before any node is asked, because of an overload.
func (w *world) turnedAway(c *caller) {
	p := w.procs[c.process]
	c.s = p.q.State(c.w)
	p.q.Wake(c.w)
	c.why, _ = c.t.Due(c.s)
	w.do(p, func(q *Queue) { q.Begin(c.w, p.listens) })
	tick := c.why == ByTick
	c.t.Note(true, tick)
	if tick || c.why == ByHead && !c.t.Ticks(c.s) {
		c.t.SetTick(c.s.Head, c.delay, w.at())
	}
	c.t.Expect(c.why, Refusal{}, w.at())
	c.signal = true
}

// hears has a process hear the next answer.
func (w *world) hears(k int) {
	p := w.procs[k]
	a := p.back[0]
	p.back = p.back[1:]
	if a.kind == locks {
		if c := w.calls[a.call]; c.phase == asking && c.token == a.token {
			w.heard(c, &a)
		}
		return
	}
	told := false
	for j, t := range a.told {
		if t == 0 || t == -(k+1) {
			continue
		}
		told = true
		if t != k+1 {
			p.gave[number(w.keyOf(&a, j))] = w.now + linger
			w.do(p, func(q *Queue) { q.GaveWay(w.keyOf(&a, j), w.at()) })
		}
	}
	if a.unlock && !told {
		var keys []any
		for r := range resources {
			if in(a.wants, r) {
				keys = append(keys, key(r))
				p.gave[r] = 0
			}
		}
		w.do(p, func(q *Queue) { q.HandOver(keys, w.at()) })
	}
}

// keyOf is that of the j-th that was told.
func (w *world) keyOf(a *answer, j int) string {
	if a.kind == passes {
		return a.pass.Key
	}
	var keys []string
	for r := range resources {
		if in(a.wants, r) {
			keys = append(keys, key(r))
		}
	}
	return keys[j%len(keys)]
}

// heard has a call hear the answer to its attempt.
func (w *world) heard(c *caller, a *answer) {
	p := w.procs[c.process]
	switch {
	case a.got:
		if !c.first {
			w.beginsTurn(c)
			w.do(p, func(q *Queue) { q.Leave(c.w, true, w.at()) })
		} else {
			w.beginsTurn(c)
		}
		c.phase = holds
		w.checkOrder(c)
	case c.tries:
		c.phase = over
	case c.first:
		c.first = false
		w.do(p, func(q *Queue) { q.Join(c.w, w.at()) })
		w.startsToWait(c, a)
	default:
		if !c.s.Head {
			w.do(p, func(q *Queue) { q.Remember(c.w, errTaken, w.at()) })
		} else if !a.gaveWay() {
			w.refused(c, a.holder())
		}
		w.waitsOn(c, a)
	}
}

// refused has a call keep what it was told of for a moment, once for each holder that it waits for.
func (w *world) refused(c *caller, holder string) {
	kept := !c.w.keepUntil.IsZero()
	w.do(w.procs[c.process], func(q *Queue) { q.Refused(c.w, errTaken, holder, w.at()) })
	if kept || c.w.keepUntil.IsZero() {
		return
	}
	if c.keptFor == holder {
		w.wrong("a call keeps what it was told of twice for a holder")
	}
	c.keptFor = holder
}

// waitsOn has a call wait further after an attempt, or after it has taken another's answer for its own.
func (w *world) waitsOn(c *caller, a *answer) {
	c.phase, c.signal = waits, true
	if a != nil && a.gaveWay() {
		w.expect(c, c.why, a)
		before := c.t.tick
		off := c.t.PutOff(w.at())
		if c.t.tick.Before(before) {
			w.wrong("a timed retry is brought forward")
		}
		if off && c.t.tick.Sub(w.at()) > 2*ReservedFor+soon {
			w.wrong("a timed retry is put off for long")
		}
		if off || c.why != ByTick {
			if c.why == ByTick {
				c.putOffs++
			}
			if c.putOffs > 1 {
				w.wrong("a timed retry is put off again")
			}
			return
		}
	}
	tick := c.why == ByTick
	if tick {
		c.putOffs = 0
	}
	c.t.Note(false, tick)
	if tick || c.why == ByHead && !c.t.Ticks(c.s) {
		c.t.SetTick(c.s.Head, c.delay, w.at())
	}
	w.expect(c, c.why, a)
	w.checkPause(c)
}

// checkPause has a call not do the same again at once.
func (w *world) checkPause(c *caller) {
	why, at := c.t.Due(w.procs[c.process].q.State(c.w))
	if (why == ByKeep || why == ByExpiry) && why == c.why && !at.IsZero() && !at.After(w.at()) {
		w.wrong("a call does the same again and again, without a pause")
	}
}

// givesUp has a call end without a lock.
func (w *world) givesUp(c *caller) {
	p := w.procs[c.process]
	if c.w != nil && w.receives(c) { // It was given just then.
		return
	}
	if c.phase == asking {
		p.out = append(p.out, request{kind: releases, token: c.token, wants: c.wants, wakes: true})
		if !c.first && c.s.Head {
			w.do(p, func(q *Queue) { q.Refused(c.w, nil, "", w.at()) })
		}
	}
	if !c.first {
		w.do(p, func(q *Queue) { q.Leave(c.w, false, w.at()) })
	}
	c.phase = over
}

// unlocks has a call release its lock.
func (w *world) unlocks(c *caller) {
	p := w.procs[c.process]
	c.phase = over
	if w.passesOn(c) {
		return
	}
	p.out = append(p.out, request{kind: releases, token: c.token, wants: c.wants, wakes: true, unlock: true})
}

// hearsNews has a process hear the next message of a node.
func (w *world) hearsNews(k, i int) {
	p := w.procs[k]
	n := p.news[i][0]
	p.news[i] = p.news[i][1:]
	w.do(p, func(q *Queue) {
		if w.slow && i == 0 {
			q.HearLate(i, n.key, n.digest, w.at())
		} else {
			q.Hear(i, n.key, n.digest, w.at())
		}
	})
}

// isInLine reports whether a call is in the lines of its process.
func (w *world) isInLine(c *caller) bool {
	return (c.phase == rests || c.phase == waits || c.phase == asking) && !c.first && !c.isPassed()
}

// checkOrder has calls of one process for the same get their locks in the order in which they have begun to wait.
func (w *world) checkOrder(c *caller) {
	if c.first || w.mixed {
		return
	}
	for _, o := range w.calls {
		if o.process == c.process && o.wants == c.wants && o.w != nil && w.isInLine(o) && o.began < c.began {
			w.wrong("a call gets the lock before one of its process that has waited longer")
		}
	}
}

// This file does what redlock/turn.go does.

// beginsTurn has a call that has got a lock begin a turn.
func (w *world) beginsTurn(c *caller) {
	if c.turn == 0 {
		return
	}
	p := w.procs[c.process]
	w.do(p, func(q *Queue) { c.place = q.BeginTurn(w.keysOf(c), w.at().Add(c.turn), w.at()) })
	p.turns = append(p.turns, c.place)
}

// passesOn has a call whose lock is released pass it on, if somebody is to have it; if not, its turn ends.
func (w *world) passesOn(c *caller) (passed bool) {
	if c.place == nil {
		return false
	}
	w.do(w.procs[c.process], func(q *Queue) {
		next := q.Next(c.place, w.at())
		if next == nil {
			q.EndTurn(c.place)
			return
		}
		if passed = true; !w.at().Before(c.place.ends) {
			w.wrong("a lock is passed on after its turn")
		}
		to := next.Caller.(*caller)
		if to.wants != c.wants || !w.isInLine(to) || to.phase == asking {
			w.wrong("a lock is passed on to a call that does not wait for it")
		}
		w.checkOrder(to)
		q.Pass(c.place, next, c, w.at())
	})
	if !passed {
		w.stopTurn(c.process, c.place)
	}
	return passed
}

func (w *world) stopTurn(k int, t *Turn) {
	p := w.procs[k]
	p.turns = slices.DeleteFunc(p.turns, func(o *Turn) bool { return o == t })
}

// endsTurn is the timer of a process's oldest turn.
func (w *world) endsTurn(k int) {
	p := w.procs[k]
	t := p.turns[0]
	w.stopTurn(k, t)
	w.do(p, func(q *Queue) { q.EndTurn(t) })
}

// receives reports whether a call was passed a lock, which it has from then on.
func (w *world) receives(c *caller) bool {
	passed := w.procs[c.process].q.Wake(c.w)
	if passed != nil {
		w.gets(c, passed.(*caller))
	}
	return passed != nil
}

// gets has a call have the lock that another one has passed on.
func (w *world) gets(c, from *caller) {
	if from.phase != over || from.place == nil {
		w.wrong("a call is passed a lock that another one has")
	}
	c.phase, c.token, c.place, c.signal = holds, from.token, from.place, false
	w.do(w.procs[c.process], func(q *Queue) { q.Leave(c.w, true, w.at()) }) // As it does in any case.
}

// isPassed reports whether a call was passed a lock that it has not taken yet.
func (c *caller) isPassed() bool { return c.w != nil && c.w.passed != nil }
