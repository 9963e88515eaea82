package redlock

import (
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/internal/waiting"
)

// A turn is one lock of the nodes that callers of this process have one after the other, each with a Lock of its own.
// [lease.Turn] says until when, and [waiting.Turn] who is next.
type turn struct {
	r       *core
	claim   *claim // of all its locks
	rules   lease.Turn
	place   *waiting.Turn
	timer   *time.Timer          // ends it
	lost    atomic.Bool          // an extension has found the claim lost: nothing is passed on any more
	current atomic.Pointer[Lock] // the Lock that has the claim, or had it last
}

// A share is the further state of a Lock that is part of a turn.
type share struct {
	*turn

	fence  int64
	token  string // of Token; empty before its first call
	passed bool   // the lock was passed on to this Lock
}

// beginTurn makes l, which was just acquired, the first Lock of a turn.
func (a *acquisition) beginTurn(l *Lock, rd *round) {
	now := time.Now()
	t := &turn{r: a.r, claim: l.claim, rules: rd.rules.NewTurn(a.turn, now)}
	t.current.Store(l)
	if !a.r.hasTurns.Load() { // A needless write would slow down readers.
		a.r.hasTurns.Store(true)
	}
	l.share = &share{turn: t, fence: t.rules.Fence()}
	a.r.line.Do(func(q *waiting.Queue, at time.Time) { t.place = q.BeginTurn(l.claim.keys, now.Add(a.turn), at) })
	t.timer = time.AfterFunc(a.turn, t.end)
}

// end ends the turn: waiters of this process ask the nodes again, as usual.
func (t *turn) end() {
	t.r.line.Do(func(q *waiting.Queue, _ time.Time) { q.EndTurn(t.place) })
}

// passOn passes a lock whose release has begun on to the next waiter of this process, while its turn lasts. It reports
// whether it did. If not, the turn is over, and the lock must be released.
func (l *Lock) passOn() bool {
	if l.share == nil {
		return false
	}
	t := l.share.turn
	l.mu.Lock()
	defer l.mu.Unlock()
	l.r.line.Do(func(q *waiting.Queue, now time.Time) {
		w := q.Next(t.place, now)
		if w != nil && !t.lost.Load() && !l.r.calls.IsClosing() {
			if a := w.Caller.(*acquisition); l.suits(a) && l.rules.MayPass(&t.rules, a.terms.validity, a.o.stopTime, now) {
				q.Pass(t.place, w, t.pass(l, a, now), now)
				l.released.passed = true
				return
			}
		}
		q.EndTurn(t.place)
	})
	if !l.released.passed {
		t.timer.Stop()
	}
	return l.released.passed
}

// suits reports whether l is what the caller has asked for: with a fence or without, with counters that live for long
// enough, with keys that live no longer than its own would, and with at least the drift allowance that it wants.
func (l *Lock) suits(a *acquisition) bool {
	if a.counters != nil && a.o.fenceLife > l.o.fenceLife {
		return false
	}
	if l.claim.Life() > a.terms.ttl { // A caller that drops its lock must keep others out only for its own ttl.
		return false
	}
	return (a.counters == nil) == (l.claim.counters == nil) && a.terms.factor <= l.terms.factor
}

// pass returns the Lock of the caller a, to which l is passed on. l.mu is held.
func (t *turn) pass(l *Lock, a *acquisition, now time.Time) *Lock {
	both := new(struct {
		Lock
		share
	})
	next := &both.Lock
	next.r, next.o, next.claim, next.terms, next.rules = a.r, a.o, t.claim, a.terms, l.rules.Pass(now)
	both.share = share{turn: t, fence: t.rules.Fence(), passed: true}
	next.share = &both.share
	t.current.Store(next)
	if t.lost.Load() { // If the loss came just now, its finder may not have seen next.
		next.rules.Lose(now)
	}
	return next
}

// lockHeir returns, with its mu held, the Lock that has l's claim now: l, or the latest to which it was passed on. The
// result of an extension or repair that was under way meanwhile belongs to that Lock.
func (l *Lock) lockHeir() *Lock {
	for {
		heir := l
		if l.share != nil {
			heir = l.share.current.Load()
		}
		heir.mu.Lock()
		if l.share == nil || l.share.current.Load() == heir {
			return heir
		}
		heir.mu.Unlock()
	}
}

// bequeath applies the result of an extension of l to its heir, if l was passed on meanwhile.
func (l *Lock) bequeath(rd *round, now time.Time) {
	if l.share == nil {
		return
	}
	if rd.rules.Verdict == lease.Lost {
		l.share.lost.Store(true)
	}
	heir := l.lockHeir()
	if heir != l {
		_ = heir.rules.Prolong(&rd.rules, nil, now)
	}
	heir.mu.Unlock()
	if heir != l && rd.rules.Verdict == lease.Lost {
		heir.lost()
	}
}

// ownToken returns a token of this Lock only. The keys have one token for all Locks of a turn: with that, a late
// release could release the lock of a later caller.
func (l *Lock) ownToken() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.share.token == "" {
		l.share.token = tokens.WithLabel(tokens.NewOfTurn(), l.o.owner)
	}
	return l.share.token
}
