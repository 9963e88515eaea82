package judge

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/history"
)

// A mutation makes a correct history wrong somewhere, and returns false where there is nothing to do so.
type mutation struct {
	rule string
	name string
	make func(r *run) ([]history.Event, bool)
}

// edit changes the events for which f returns true; those that it empties are removed.
func (r *run) edit(f func(e *history.Event)) []history.Event {
	events := slices.Clone(r.events)
	for i := range events {
		f(&events[i])
	}
	return slices.DeleteFunc(events, func(e history.Event) bool { return e.Kind == "" })
}

// is reports whether an event is the beginning or the end of a call.
func (c *call) is(e *history.Event) bool {
	return (e.Kind == history.Call || e.Kind == history.Return) && e.Client == c.client && e.Call == c.call
}

func (c *call) ends(e *history.Event) bool { return e.Kind == history.Return && c.is(e) }

// pairs calls f with locks that follow each other on a resource, until it returns true.
func (r *run) pairs(f func(a, b *lock) bool) bool {
	for _, res := range r.resources {
		locks := r.byResource[res]
		for i := 1; i < len(locks); i++ {
			if f(locks[i-1], locks[i]) {
				return true
			}
		}
	}
	return false
}

// heldOn forgets that a lock was unlocked, and another one was got before Until. (Of a kept lock, Unlock tells Until.)
func heldOn(r *run) (events []history.Event, ok bool) {
	ok = r.pairs(func(a, b *lock) bool {
		if len(a.unlocks) != 1 || !a.unlocks[0].ok() || len(a.releases) > 0 || a.kept || b.got >= a.until || b.over <= b.got {
			return false
		}
		if slices.ContainsFunc(a.extends, (*call).lost) {
			return false
		}
		events = r.edit(func(e *history.Event) {
			if a.unlocks[0].is(e) {
				*e = history.Event{}
			}
		})
		return true
	})
	return events, ok
}

func sameFence(r *run) (events []history.Event, ok bool) {
	ok = r.pairs(func(a, b *lock) bool {
		events = r.edit(func(e *history.Event) {
			if b.acquired.ends(e) {
				e.Fence = a.fence
			}
		})
		return a.fence != b.fence
	})
	return events, ok
}

func lateFence(r *run) (events []history.Event, ok bool) {
	ok = r.pairs(func(a, b *lock) bool {
		events = r.edit(func(e *history.Event) {
			if b.acquired.ends(e) {
				e.Fence = a.fence - 1
			}
		})
		return a.got < b.asked && a.fence > 1
	})
	return events, ok
}

// once returns a mutation of the first event that f changes, for which it is true.
func once(f func(r *run, e *history.Event) bool) func(r *run) ([]history.Event, bool) {
	return func(r *run) ([]history.Event, bool) {
		done := false
		events := r.edit(func(e *history.Event) { done = done || f(r, e) })
		return events, done
	}
}

// eachOperation returns a mutation of the first operation of the register for which f is true.
func eachOperation(f func(r *run, e *history.Event) bool) func(r *run) ([]history.Event, bool) {
	return once(func(r *run, e *history.Event) bool {
		return (e.Kind == history.Read || e.Kind == history.Write) && f(r, e)
	})
}

func refuse(r *run, e *history.Event) bool {
	l := r.lockOf(*e)
	if !e.OK || e.Kind != history.Read || l.got > e.At || l.over < e.End {
		return false
	}
	e.OK = false
	return true
}

func anotherFence(_ *run, e *history.Event) bool {
	e.Fence++
	return true
}

func forgetWrite(_ *run, e *history.Event) bool {
	if e.Kind != history.Write || !e.OK {
		return false
	}
	*e = history.Event{}
	return true
}

// overtakes swaps which of two waiters got the lock first.
func overtakes(r *run) ([]history.Event, bool) {
	for _, res := range r.resources {
		for _, l := range r.byResource[res] {
			y := l.acquired
			x := r.inLineBefore(y, res)
			if len(l.resources) > 1 || y.wait == 0 || x == nil || !x.ok() || x.end.At > y.end.At {
				continue
			}
			if from := r.locks[x.id].asked - 2*r.nodeTimeout(); !r.healthy(y.client, from, y.end.At) || !r.ran(y.client, from, y.end.At) {
				continue
			}
			return r.edit(func(e *history.Event) {
				switch {
				case x.ends(e):
					e.Call = y.call
				case y.ends(e):
					e.Call = x.call
				}
			}), true
		}
	}
	return nil, false
}

func lateSignal(r *run, e *history.Event) bool {
	if e.Kind != history.Lost || len(r.lockOf(*e).unlocks) > 0 {
		return false
	}
	e.At = r.lockOf(*e).signalDue(r) + 1
	return true
}

// eachAcquisition returns a mutation of the return of the first call that got a lock.
func eachAcquisition(f func(r *run, l *lock, e *history.Event)) func(r *run) ([]history.Event, bool) {
	return once(func(r *run, e *history.Event) bool {
		l := r.locks[id{e.Client, e.Call}]
		if l == nil || e.Kind != history.Return {
			return false
		}
		f(r, l, e)
		return true
	})
}

func longer(_ *run, _ *lock, e *history.Event)       { e.Until = e.At + ttl + 1 }
func withoutUntil(_ *run, _ *lock, e *history.Event) { e.Until = 0 }
func endedBefore(_ *run, l *lock, e *history.Event)  { e.Until = l.acquired.begin.At }
func afterItsUntil(r *run, l *lock, e *history.Event) {
	e.At = r.excused(l.client, e.Until, r.slack(l.client, e.Until)) + 1
}

func lateSection(r *run, e *history.Event) bool {
	l := r.lockOf(*e)
	if e.Kind != history.Enter || !l.exact {
		return false
	}
	e.At = r.excused(e.Client, l.until, r.slack(e.Client, l.until)) + 1
	return true
}

func nilUnlock(r *run, e *history.Event) bool {
	if e.Kind != history.Return || e.Outcome != history.OutcomeLost {
		return false
	}
	c := r.calls[id{e.Client, e.Call}]
	if l := r.lockOf(c.begin); c.begin.Op != history.OpUnlock || c.begin.At <= l.until || !l.exact {
		return false
	}
	e.OK, e.Outcome = true, ""
	return true
}

func nilRelease(r *run, e *history.Event) bool {
	if e.Kind != history.Return || e.Outcome != history.OutcomeLost {
		return false
	}
	c := r.calls[id{e.Client, e.Call}]
	if c.begin.Op != history.OpRelease {
		return false
	}
	l := r.lockOf(c.begin)
	succeeded := slices.ContainsFunc(r.byResource[l.resources[0]], func(next *lock) bool {
		return next.asked > l.got && next.got < c.begin.At
	})
	if succeeded {
		e.OK, e.Outcome = true, ""
	}
	return succeeded
}

func lostUnlock(r *run, e *history.Event) bool {
	if e.Kind != history.Return || !e.OK {
		return false
	}
	c := r.calls[id{e.Client, e.Call}]
	l := r.lockOf(c.begin)
	if l == nil || c.begin.Op != history.OpUnlock || e.At >= l.until || len(l.releases) > 0 {
		return false
	}
	e.OK, e.Outcome = false, history.OutcomeLost
	return true
}

func keyStays(r *run) ([]history.Event, bool) {
	return r.edit(func(e *history.Event) {
		if e.Kind == history.Keys && *e.Node == 2 {
			e.Keys = []string{"r0"}
		}
	}), true
}

func lateReturn(r *run) ([]history.Event, bool) {
	for _, c := range r.inOrder {
		if c.end != nil && c.begin.Bound > 0 && !c.end.OK {
			due := r.excused(c.client, c.begin.At, c.begin.Bound+r.slack(c.client, c.begin.Bound)-c.begin.At)
			return r.edit(func(e *history.Event) {
				if c.ends(e) {
					e.At = due + 1
				}
			}), true
		}
	}
	return nil, false
}

func lostLine(r *run) ([]history.Event, bool) {
	for _, c := range r.inOrder {
		if _, died := r.down[c.client]; c.end != nil && !died {
			return r.edit(func(e *history.Event) {
				if c.ends(e) {
					*e = history.Event{}
				}
			}), true
		}
	}
	return nil, false
}

var mutations = []mutation{
	{"overlap", "a lock goes on", heldOn},
	{"fence order", "the same fence", sameFence},
	{"fence order", "a fence that falls", lateFence},
	{"register", "a holder is refused", eachOperation(refuse)},
	{"register", "another fence", eachOperation(anotherFence)},
	{"register", "a write is not written", eachOperation(forgetWrite)},
	{"loss signal", "late", once(lateSignal)},
	{"validity", "a longer lock", eachAcquisition(longer)},
	{"validity", "no end", eachAcquisition(withoutUntil)},
	{"validity", "an end before the call", eachAcquisition(endedBefore)},
	{"validity", "a late return", eachAcquisition(afterItsUntil)},
	{"validity", "a late section", once(lateSection)},
	{"early loss", "Unlock finds nothing", once(lostUnlock)},
	{"release outcome", "Unlock after Until", once(nilUnlock)},
	{"release outcome", "Release of a lock that was succeeded", once(nilRelease)},
	{"keys left", "a key stays", keyStays},
	{"bounds", "late", lateReturn},
	{"complete", "a line is lost", lostLine},
}

func TestEveryRuleSeesItsMutation(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 24
	}
	done := make(map[string]int)
	for seed := range seeds {
		r := newRun(newWorld(1000 + seed).run())
		for _, m := range slices.Concat(mutations, featureMutations) {
			events, ok := m.make(r)
			if !ok {
				continue
			}
			done[m.rule+": "+m.name]++
			v := Judge(events)
			require.Equal(t, Broken, v.Rule(m.rule).State, "seed %d, %s, %s\n%s", seed, m.rule, m.name, v)
		}
	}
	t.Log(done)
	for _, m := range slices.Concat(mutations, featureMutations) {
		require.Positive(t, done[m.rule+": "+m.name], "no history for %s: %s", m.rule, m.name)
	}
}

// The lines of a world's processes are in order whatever is lost.
func withoutLosses(events []history.Event) *run {
	return newRun(slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return e.Fault == "lossy" }))
}

func TestOvertakingIsSeen(t *testing.T) {
	seen := 0
	for seed := range uint64(24) {
		r := withoutLosses(newWorld(1000 + seed).run())
		f := &findings{run: r}
		waiters(r, f)
		require.Zero(t, f.count, "seed %d: %v", seed, f.violations)
		if events, ok := overtakes(r); ok {
			seen++
			f = &findings{run: newRun(events)}
			waiters(f.run, f)
			require.Positive(t, f.count, "seed %d", seed)
		}
	}
	require.Positive(t, seen)
}
