package waiting

import (
	"slices"
	"time"
)

// A Turn is the time in which this process passes a lock from one waiter here to the next. During a turn, waiters that
// take part in turns and want exactly its resources ask no node. The head among them gets in line on the nodes when the
// turn ends, at the place that its own age gives. The tempting alternative is to get in line as it becomes head. Then
// each pass would cost requests to all nodes, and this process would keep the place of a waiter served long ago.
type Turn struct {
	keys    []string
	ends    time.Time
	resting []*Waiter // those that have joined since it began, and sleep without a timer until they are notified
}

// BeginTurn is called when this process has got a lock on the keys whose turn ends then, before its waiter leaves.
func (q *Queue) BeginTurn(keys []any, ends, now time.Time) *Turn {
	q.sweep(now)
	q.EndTurns(keys)
	t := &Turn{keys: make([]string, len(keys)), ends: ends}
	for i, key := range keys {
		t.keys[i] = key.(string)
		q.of(t.keys[i], now).turn = t
	}
	return t
}

// EndTurns is called when this process has got a lock on the keys: an earlier lock of its own on any of them was lost.
func (q *Queue) EndTurns(keys []any) {
	for _, key := range keys {
		if g := q.byKey[key.(string)]; g != nil && g.turn != nil {
			q.EndTurn(g.turn)
		}
	}
}

// turnOf is the turn that w takes part in; nil if there is none.
func (q *Queue) turnOf(w *Waiter) *Turn {
	if w.Caller == nil {
		return nil
	}
	if g := q.byKey[w.keys[0]]; g != nil && g.turn != nil && slices.Equal(g.turn.keys, w.keys) && q.isOn(g.turn) {
		return g.turn
	}
	return nil
}

// isOn reports whether a turn has not ended, and no other lock has been got since on a key of it.
func (q *Queue) isOn(t *Turn) bool {
	return !slices.ContainsFunc(t.keys, func(key string) bool { g := q.byKey[key]; return g == nil || g.turn != t })
}

// rest adds w to those that rest. Those that have left are forgotten when there is no more room: a turn may last for minutes.
func (t *Turn) rest(w *Waiter) {
	if len(t.resting) == cap(t.resting) {
		t.resting = slices.DeleteFunc(t.resting, func(w *Waiter) bool { return len(w.places) == 0 })
		t.resting = slices.Grow(t.resting, len(t.resting)+1)
	}
	t.resting = append(t.resting, w)
}

// Next returns who gets the lock of a turn next: the first waiter in the lines of all its keys, if it takes part in
// turns, wants exactly these keys, and sleeps. If that waiter is asking the nodes right now, Next returns nil.
func (q *Queue) Next(t *Turn, now time.Time) *Waiter {
	if !now.Before(t.ends) || !q.isOn(t) {
		return nil
	}
	w := q.byKey[t.keys[0]].first()
	if w == nil || !w.head || !w.sleeps || w.Caller == nil || !slices.Equal(w.keys, t.keys) {
		return nil
	}
	return w
}

// Pass gives w, which Next has returned, what is passed on to it, and takes it out of its lines.
func (q *Queue) Pass(t *Turn, w *Waiter, what any, now time.Time) {
	w.inLine = false // Nodes that it has got in line on have not been told.
	q.Leave(w, true, now)
	w.passed, w.sleeps = what, false
	w.notify()
}

// Return has w join again after it was passed a lock that was over.
func (q *Queue) Return(w *Waiter, now time.Time) {
	q.join(w, now)
}

// EndTurn is called when the time of a turn is over, or when its lock is released earlier. A head that has not asked the
// nodes yet asks them now.
func (q *Queue) EndTurn(t *Turn) {
	for _, key := range t.keys {
		if g := q.byKey[key]; g != nil && g.turn == t {
			g.turn = nil
			if w := g.first(); w != nil && w.head {
				w.notify()
			}
		}
	}
	for _, w := range t.resting {
		w.notify()
	}
	t.resting = nil
}

// Sleep is State of a waiter that goes to sleep, and may be passed a lock until Wake; or passed is what it was passed.
func (q *Queue) Sleep(w *Waiter) (s State, passed any) {
	if w.passed != nil {
		return s, q.Wake(w)
	}
	w.sleeps = w.Caller != nil
	return q.State(w), nil
}

// Wake ends the sleep of w. It returns what was passed on to it, which is its own from then on; nil if nothing was.
func (q *Queue) Wake(w *Waiter) (passed any) {
	passed = w.passed
	w.sleeps, w.passed = false, nil
	return passed
}
