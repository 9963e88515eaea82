package judge

import (
	"cmp"
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
)

// A lock is one that a call has acquired.
type lock struct {
	id
	resources []string
	fence     int64
	holder    string // The digest of its token.
	acquired  *call

	// asked is a time that the attempt which got the lock did not begin before, got when its holder knew of it. An attempt that
	// got a permit may have begun before the call, for another one: after began at least. A lock that was passed on was asked
	// for by the first of its turn.
	began, asked, got int64
	// until is the last end that its holder saw. It is exact unless the lock is kept and nothing tells it later.
	until int64
	exact bool
	told  bool // Something tells until at all.
	// over is when its holder's time ended: the first of until, a release, the loss signal.
	over int64

	kept     bool
	keptFrom int64
	lost     *history.Event
	extends  []*call
	unlocks  []*call // by its holder, in order
	releases []*call // by its token, in order

	from, to *lock          // In its turn: who passed it on to it, and whom it was passed on to; nil: nobody that is known.
	passed   *history.Event // Its Unlock has said that it was passed on.
}

// makeLocks reads what calls have come to.
func (r *run) makeLocks() {
	slices.SortStableFunc(r.inOrder, func(a, b *call) int { return cmp.Compare(a.begin.At, b.begin.At) })
	for i := range r.events {
		e := &r.events[i]
		if e.Kind != history.Return && e.Kind != history.Wait {
			continue
		}
		c := r.calls[id{e.Client, e.Call}]
		switch {
		case c == nil:
			r.strange(e, "this call has not begun")
		case e.Kind == history.Wait:
			c.wait = e.At
		default:
			r.readReturn(c, e)
		}
	}
	for _, c := range r.inOrder {
		switch op := c.begin.Op; {
		case op != history.OpLock && op != history.OpTryLock || !c.ok():
		case len(c.begin.Resources) == 0:
			r.strange(&c.begin, "this got a lock on nothing")
		default:
			r.addLock(c)
		}
	}
	for _, c := range r.inOrder {
		r.addCall(c)
	}
	for _, locks := range r.byResource {
		slices.SortStableFunc(locks, func(a, b *lock) int { return cmp.Compare(a.got, b.got) })
	}
	slices.Sort(r.resources)
	r.makeTurns()
}

func (r *run) addLock(c *call) {
	resources := slices.Compact(slices.Sorted(slices.Values(c.begin.Resources)))
	l := &lock{
		id: c.id, resources: resources, fence: c.end.Fence, acquired: c, until: c.end.Until,
		holder: holder(*c.end), asked: c.begin.At, got: c.end.At,
	}
	if ttl := c.mostTTL(r); l.until > 0 && ttl > 0 {
		l.began = min(l.asked, l.until-ttl) // Until is at most a ttl after the start of the attempt.
		l.asked = min(max(l.asked, l.until-ttl), l.got)
	}
	c.lock, r.byHolder[l.holder], r.got = l, l, append(r.got, l)
	if c.end.Token != "" {
		if r.byToken[c.end.Token] != nil {
			r.strange(c.end, "another lock has this token")
		}
		r.byToken[c.end.Token] = l
	}
	for _, res := range resources {
		if r.byResource[res] == nil {
			r.resources = append(r.resources, res)
		}
		r.byResource[res] = append(r.byResource[res], l)
	}
}

// addCall gives a lock the calls about it.
func (r *run) addCall(c *call) {
	var calls *[]*call
	l := r.lockOf(c.begin)
	switch op := c.begin.Op; {
	case op == history.OpLock, op == history.OpTryLock:
		return
	case l == nil:
		r.strange(&c.begin, "nobody has acquired this lock")
		return
	case op == history.OpExtend:
		calls = &l.extends
	case op == history.OpUnlock:
		calls = &l.unlocks
	case op == history.OpRelease:
		calls = &l.releases
	default:
		r.strange(&c.begin, "there is no such call")
		return
	}
	*calls = append(*calls, c)
}

// note keeps what another event tells about the lock.
func (l *lock) note(e *history.Event) {
	l.until = max(l.until, e.Until)
	switch {
	case e.Kind == history.Keep && (!l.kept || l.lost != nil && !l.gone()): // Once more, as the first hold has ended.
		l.kept, l.keptFrom, l.lost, l.exact = true, e.At, nil, false
	case e.Kind == history.Passed:
		l.passed = e
	case e.Kind == history.Lost && l.lost == nil:
		l.lost = e
		l.exact = l.exact || e.Until > 0
	}
}

// gone reports whether the loss signal said that the lock was lost; otherwise its hold has ended, and the lock goes on.
func (l *lock) gone() bool { return l.lost != nil && l.lost.Outcome == history.OutcomeLost }

// settle works out when the lock ended.
func (l *lock) settle(r *run) {
	for _, c := range l.extends {
		if c.ok() {
			l.until = max(l.until, c.end.Until)
		}
	}
	for _, c := range l.unlocks {
		l.until = max(l.until, c.begin.Until)
		l.exact = l.exact || c.begin.Until > 0
	}
	l.exact = (l.exact || !l.kept && !l.inherits()) && l.until > 0
	if l.told = l.until > 0; !l.told {
		l.until = l.supposed(r)
	}
	l.over = l.until - r.header.OverlapSlack
	for _, c := range l.extends {
		if c.lost() {
			l.over = min(l.over, c.end.At)
		}
	}
	for _, c := range slices.Concat(l.unlocks, l.releases) {
		l.over = min(l.over, c.begin.At)
	}
	if l.lost != nil && l.lost.Outcome != history.OutcomeCancelled {
		l.over = min(l.over, l.lost.At)
	}
}

// supposed is until when a lock counts as held by a library that does not say: for its ttl; or, if it is kept alive,
// for as long as the holder's process lives, and does not stand still.
func (l *lock) supposed(r *run) int64 {
	if !l.kept {
		return l.asked + l.acquired.begin.TTL
	}
	end := r.process(l.client).end
	for _, f := range r.faults {
		if f.name == history.Freeze && f.hits(l.client) && f.to >= l.asked {
			end = min(end, max(f.from, l.asked))
		}
	}
	return end
}

// contended is how many locks somebody else wanted meanwhile.
func (r *run) contended() (n int) {
	wanting := make(map[string][]*call) // By when they began.
	for _, c := range r.inOrder {
		if c.begin.Op == history.OpLock || c.begin.Op == history.OpTryLock {
			for _, res := range c.begin.Resources {
				wanting[res] = append(wanting[res], c)
			}
		}
	}
	for _, l := range r.got {
		for _, c := range wanting[l.resources[0]] {
			if c.begin.At > l.over {
				break
			}
			if c != l.acquired && c.returned(r) >= l.asked {
				n++
				break
			}
		}
	}
	return n
}
