package waiting

import "slices"

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
