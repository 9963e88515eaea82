package lease

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A course is a lock that is kept, extended and released, by any way on which that may go. A tick of its clock is 10 ms,
// its ttl gives nine of them, and what hangs on time is looked at between two ticks. The search below visits every course.
type course struct {
	lease   Lease
	hold    Hold
	now     time.Duration // by the monotonic clock
	lead    time.Duration // of the others, which have gone on while the machine slept
	keeping bool          // the hold's extension is under way
	dropped bool          // nobody relies on the lock at present
	drops   int           // how often that may still be so
	sleeps  int           // how often the machine may still sleep
	asked   []extension   // those that are under way; the hold's first
	short   int           // calls of Extend with half of the ttl that may still come
	begun   Verdict       // what the release was to find, once it has begun
	late    bool          // the timer may be late by a tick
	repairs int           // how often a node may still be found without its keys
	mending bool          // it is repaired
	closes  bool          // the nodes may be closed, once
	healthy bool          // all extensions come in time, and nobody calls Extend by less
	limits  bool          // there are a stop time and a max hold
	until   time.Duration // the latest that anybody was promised, by all clocks
	warned  bool          // since the last success
	from    *course       // the one before, and what has happened since
	move    string
}

// An extension is when one began.
type extension struct{ now, lead time.Duration }

const tick = 10 * time.Millisecond

var begin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// leadNow is that of the course that is looked at.
var leadNow time.Duration

var courseRules = &Config{
	Need:   1,
	Clock:  func(now time.Time) (time.Time, time.Duration) { return now, leadNow },
	Random: func(time.Duration) time.Duration { return 0 },
}

func (c *course) at() time.Time { return begin.Add(c.now) }

// ends is when the lock ends, by all clocks, and left how long that is from now.
func (c *course) ends() time.Duration { return c.lease.Until.Mono.Sub(begin) + c.lease.Until.lead }
func (c *course) left() time.Duration { return c.ends() - c.now - c.lead }

func newCourse(healthy, late, limits bool) *course {
	c := &course{healthy: healthy, late: late, limits: limits, short: 1}
	r := Round{Config: courseRules, Verdict: Granted, Start: begin, Validity: 9 * tick}
	c.lease = r.Got()
	c.until = 9 * tick
	c.hold = Hold{Validity: 9 * tick}
	if limits {
		c.hold.StopTime, c.hold.MaxHold = 2*tick, 15*tick
	}
	if healthy {
		c.short = 0
	}
	c.hold.Lease = &c.lease
	c.hold.Keep(c.at())
	return c
}

func (c *course) clone() *course {
	d := *c
	d.hold.Lease, d.from = &d.lease, c
	d.asked = slices.Clone(c.asked)
	d.lease.repairs = slices.Clone(c.lease.repairs)
	return &d
}

// String is what has happened.
func (c *course) String() string {
	if c.from == nil {
		return ""
	}
	return fmt.Sprintf("%v\n%v %s", c.from, c.now, c.move)
}

// A courseKey is what tells courses apart: times are those from now on, and what is long over is the same.
type courseKey struct {
	keeping, again, late, extending, warned, told, left bool
	short, calls, drops, sleeps, repairs                int
	mending, closes                                     bool
	begun, ended, before, cause                         Verdict
	release                                             Release
	promised, until, mono, pace, next, now              time.Duration
	asked                                               [2]extension
	dropped                                             bool
}

func (c *course) key() courseKey {
	h, l := &c.hold, &c.lease
	leadNow = c.lead
	ahead := func(at time.Time) time.Duration { return max(at.Sub(c.at()), -tick) }
	k := courseKey{
		keeping: c.keeping, again: l.again, late: l.late, extending: h.extending, warned: h.warned, told: c.warned, left: h.left,
		short: c.short, calls: len(c.asked), begun: c.begun, ended: l.Ended, before: l.Before, cause: h.Cause, release: l.Release,
		promised: max(c.until-c.now-c.lead, -tick), until: max(c.left(), -tick), mono: ahead(l.Until.Mono), dropped: c.dropped, drops: c.drops, sleeps: c.sleeps,
		repairs: c.repairs, mending: c.mending, closes: c.closes,
		pace: ahead(l.Extended.Add(3 * tick)), next: -2 * tick,
	}
	for i, at := range c.asked {
		k.asked[i] = extension{min(c.now-at.now, 10*tick), c.lead - at.lead}
	}
	if !h.next.IsZero() {
		k.next = ahead(h.next)
	}
	if h.MaxHold > 0 {
		k.now = min(c.now, h.MaxHold)
	}
	return k
}

// moves are the names of what may happen next.
func (c *course) moves() (moves []string) {
	leadNow = c.lead
	d, any := c.hold.Due(c.at())
	due := any && d == 0
	if due {
		moves = append(moves, "timer")
	}
	slow := c.healthy && len(c.asked) > 0 && c.now-c.asked[0].now >= 2*tick
	if (!due || c.late && d == 0 && !c.lateNow()) && !slow {
		moves = append(moves, "time")
	}
	if len(c.asked) > 0 {
		moves = append(moves, "granted")
		if !c.healthy {
			if c.keeping && len(c.asked) > 1 {
				moves = append(moves, "granted to the call")
			}
			moves = append(moves, "no quorum", "lost", "given up", "past its end")
		}
	}
	if c.short > 0 && c.lease.Ended == Undecided {
		moves = append(moves, "extend")
	}
	if !c.healthy {
		switch c.lease.Release {
		case Held, Unconfirmed:
			if c.lease.Release == Held || !c.lease.again {
				moves = append(moves, "unlock")
			}
		case BeingReleased:
			moves = append(moves, "all had it", "none had it", "no answer")
		}
		moves = append(moves, "early timer", "jumped")
		if c.sleeps > 0 {
			moves = append(moves, "sleep")
		}
		if c.drops > 0 && !c.dropped {
			moves = append(moves, "all drop it")
		}
		if c.repairs > 0 {
			moves = append(moves, "repair")
		}
		if c.mending {
			moves = append(moves, "repaired")
		}
		if c.closes {
			moves = append(moves, "closed")
		}
		if h, _ := c.copies(); h.Check(c.at()) == Undecided {
			moves = append(moves, "keep")
		}
	}
	return moves
}

// copies are of the hold and the lease: a look may note that the lease has ended.
func (c *course) copies() (Hold, *Lease) {
	h, l := c.hold, c.lease
	h.Lease = &l
	return h, &l
}

// isHeld reports whether the lock is held, without a look at it.
func (c *course) isHeld() bool {
	_, l := c.copies()
	return l.Check(c.at()) == Undecided
}

// lateNow reports whether the timer has been due for a tick.
func (c *course) lateNow() bool {
	d, _ := c.hold.Due(c.at().Add(-tick))
	return d == 0
}

func (c *course) do(t *testing.T, move string) {
	t.Helper()
	c.move, leadNow = move, c.lead
	before, next := c.lease, c.hold.next
	switch move {
	case "time":
		c.now += tick
	case "timer", "early timer":
		c.carryOut(t, c.hold.Tick(c.at(), !c.dropped))
		d, any := c.hold.Due(c.at())
		c.must(t, !any || d > 0, "the timer runs for ever")
	case "all drop it":
		c.dropped = true
	case "keep":
		c.dropped = false
		c.hold.Keep(c.at())
		c.must(t, next.IsZero() || !c.hold.next.After(next), "an extension is put off")
	case "extend":
		c.short--
		c.asked = append(c.asked, extension{c.now, c.lead})
	case "repair":
		c.repairs--
		held := c.isHeld()
		left, may := c.lease.MayRepair(0, 1, c.at())
		c.must(t, may == (held && !c.mending), "a node is not repaired, or twice at a time, or for nothing")
		c.must(t, !may || left == c.left(), "a repair may come too late, or not at all")
		c.mending = c.mending || may
	case "closed":
		c.closes = false
		c.hold.Over(Closed)
	case "repaired":
		c.lease.Repaired(0)
		c.mending = false
	case "unlock":
		_, l := c.copies()
		prior := l.Check(c.at())
		again := c.lease.Unlock(c.at())
		if !again {
			c.begun = prior
		}
		c.must(t, (before.Release == Unconfirmed) == again, "it is not a release that is repeated, or is one")
		c.hold.Over(ByRelease)
	case "all had it", "none had it", "no answer":
		c.unlocked(t, map[string]Verdict{"all had it": Granted, "none had it": Lost, "no answer": NoQuorum}[move])
	case "jumped":
		c.hold.Jumped(c.at())
		early := c.left()-c.hold.StopTime > c.hold.Term()*2/3
		c.must(t, !early || c.hold.next.Equal(next), "a lock is extended at each jump of a clock")
	case "sleep":
		c.sleeps--
		c.lead += 4 * tick
		leadNow = c.lead
		c.hold.Jumped(c.at())
	case "granted to the call":
		c.answered(t, Granted, 1)
	default:
		c.answered(t, map[string]Verdict{
			"granted": Granted, "no quorum": NoQuorum, "lost": Lost, "given up": Undecided, "past its end": Expired,
		}[move], 0)
	}
	c.must(t, before.Ended == Undecided || c.lease.Ended == before.Ended, "what has ended ends in another way")
	c.must(t, c.ends() >= before.Until.Mono.Sub(begin)+before.Until.lead, "an extension shortens")
	c.must(t, !c.lease.Extended.Before(before.Extended), "an extension counts as older than it is")
	c.must(t, c.ends() <= c.until, "nobody has granted that")
	c.must(t, c.lease.Ended != Undecided || c.lease.Release == Held, "it is held while it is released")
	c.check(t)
}

// carryOut is what a driver does.
func (c *course) carryOut(t *testing.T, e Effect) {
	t.Helper()
	if e.Has(Extend) {
		c.must(t, !c.keeping, "two extensions by a hold")
		c.must(t, 3*c.hold.Patience() <= c.hold.Term(), "no time is left for another extension if this one is lost")
		c.must(t, c.hold.Cause == Undecided, "an extension by a hold that is over")
		c.keeping = true
		c.asked = slices.Insert(c.asked, 0, extension{c.now, c.lead})
	}
	c.must(t, e.Has(Leave) == (c.lease.Ended != Undecided && c.lease.Release == Held), "a hold leaves too early, or stays")
	if e.Has(Inform) {
		c.must(t, c.hold.Cause != Undecided, "it ends for no reason")
	}
}

// answered ends an extension that is under way.
func (c *course) answered(t *testing.T, v Verdict, which int) {
	t.Helper()
	at := c.asked[which]
	c.asked = slices.Delete(c.asked, which, which+1)
	h := (*Hold)(nil)
	r := Round{Config: courseRules, Kind: Extending, Verdict: v, Start: begin.Add(at.now), Lead: at.lead, Validity: 2 * tick}
	if c.keeping && which == 0 {
		h, r.Validity = &c.hold, 9*tick
	}
	if v == Granted {
		c.until = max(c.until, at.now+at.lead+r.Validity)
	}
	held, over := c.isHeld(), h != nil && h.Cause != Undecided
	if v == Expired && c.left() > 0 { // It was so when the quorum came: another has moved Until since.
		c.until = max(c.until, at.now+at.lead+r.Validity)
	}
	got := c.lease.Prolong(&r, h, c.at())
	switch {
	case got == Granted:
		c.must(t, held && (v == Granted || v == Expired), "an extension that has failed has succeeded")
		c.must(t, !r.Until().Passed(c.at(), c.lead), "an extension that is over is a success")
		c.must(t, !over, "a hold that is over goes on")
		c.must(t, c.ends() >= at.now+at.lead+r.Validity, "an extension gives less than it says")
	case !held && h != nil && c.lease.Release != Held:
		c.must(t, got == Undecided, "what was released was not lost")
	case held && v == Lost:
		c.must(t, got == Lost && c.lease.Ended == Lost, "a loss is not told")
	case !held:
		c.must(t, got == c.lease.Ended, "it is not told how the lock had ended")
	case over && v != NoQuorum && v != Undecided:
		c.must(t, got == Undecided, "a hold that is over fails")
	default:
		c.must(t, got == NoQuorum, "silence is not told")
	}
	if h == nil {
		if c.lease.Ended != Undecided {
			c.carryOut(t, c.hold.Tick(c.at(), !c.dropped)) // As Extend does.
		}
		return
	}
	c.keeping = false
	atRisk := h.Extended(got == Granted || got == Undecided, c.at())
	c.must(t, !c.warned || !atRisk, "warned twice")
	c.must(t, !atRisk || got != Granted, "a success is a risk")
	if got == NoQuorum && c.hold.Cause == Undecided && c.lease.Ended == Undecided {
		c.must(t, c.hold.next.Sub(c.at()) <= h.Term()/20, "no further try soon")
		c.must(t, c.hold.next.After(c.at()), "a further try at once, and again and again")
		left := c.left() - h.StopTime
		c.must(t, atRisk == (!c.warned && left < h.Term()/2), "nobody is warned in time")
	}
	c.warned = (c.warned || atRisk) && got != Granted
}

func (c *course) unlocked(t *testing.T, v Verdict) {
	t.Helper()
	ended := c.left() <= 0
	got := c.lease.Unlocked(v)
	switch {
	case c.begun != Undecided:
		c.must(t, got == c.begun, "it had ended before")
	case v == Lost && ended && c.lease.late:
		c.must(t, got == Expired, "an expiry is told as a loss")
	default:
		c.must(t, got == v, "a release is told in another way")
	}
	c.must(t, (v == NoQuorum) == (c.lease.Release == Unconfirmed), "it may be repeated, or not")
	c.carryOut(t, c.hold.Tick(c.at(), !c.dropped))
}

func (c *course) must(t *testing.T, is bool, what string) {
	t.Helper()
	if !is {
		t.Fatal(what, c)
	}
}

// check looks at what is promised to those who rely on the lock.
func (c *course) check(t *testing.T) {
	t.Helper()
	l, h := &c.lease, &c.hold
	left := c.left() - h.StopTime
	if _, any := h.Due(c.at()); !any {
		c.must(t, h.left || l.Release != Held, "nothing looks at the lock any more")
	}
	if d, any := h.Due(c.at()); any {
		c.must(t, d <= max(c.left(), 0), "its end would be seen too late")
		c.must(t, l.Ended == Undecided || d == 0, "its end is not seen at once")
	}
	if !h.next.IsZero() {
		c.must(t, h.next.Sub(c.at()) <= max(h.Term()/20, left-h.Term()/3), "there will be no time to extend again")
	}
	if d, any := h.Due(c.at()); any && h.Cause == Undecided && l.Ended == Undecided {
		c.must(t, d <= max(left, 0), "the contexts would end too late")
		c.must(t, !h.next.IsZero() || c.keeping || c.dropped, "no extension is planned")
		if h.MaxHold > 0 {
			c.must(t, d <= max(h.MaxHold-c.now, 0), "a max hold would come too late")
		}
	}
	if over, _ := c.copies(); h.Cause != Undecided {
		c.must(t, over.Check(c.at()) != Undecided, "a hold that is over is taken for one that goes on")
	}
	switch h.Cause {
	case StopTime:
		c.must(t, h.StopTime > 0, "there is no stop time")
	case MaxHold:
		c.must(t, c.now >= 15*tick, "a max hold comes too early")
	case Expired:
		c.must(t, l.Ended == Expired, "an end is told before it has come")
	}
	if c.healthy {
		c.must(t, slices.Contains([]Verdict{Undecided, MaxHold}, h.Cause), "a kept lock ends on a healthy node")
		c.must(t, h.Cause != Undecided || l.Ended == Undecided, "a kept lock ends, and nobody is told")
	}
}

// A lock ends once and for good, is never held for longer than a quorum has granted, and whoever relies on it hears of its
// end in time; where the nodes answer, a kept lock goes on.
func TestKeptLocks(t *testing.T) {
	states := 0
	stopped := newCourse(false, false, true)
	stopped.hold.StopTime, stopped.short = 6*tick, 0
	stopped.hold.next = time.Time{}
	stopped.hold.Keep(stopped.at())
	slept, dropped, repaired := newCourse(false, false, false), newCourse(false, false, false), newCourse(false, false, false)
	slept.sleeps = 1
	repaired.repairs, repaired.short, repaired.closes = 3, 0, true
	dropped.drops, dropped.short = 1, 0
	courses := []*course{
		slept, dropped, repaired, stopped,
		newCourse(true, false, false), newCourse(true, false, true), newCourse(true, true, false),
		newCourse(false, false, false), newCourse(false, false, true), newCourse(false, true, true),
	}
	for _, c := range courses[:rounds(len(courses), len(courses)-1)] {
		seen := map[courseKey]bool{c.key(): true}
		for todo := []*course{c}; len(todo) > 0; {
			c, todo = todo[0], todo[1:]
			for _, move := range c.moves() {
				next := c.clone()
				next.do(t, move)
				if key := next.key(); !seen[key] {
					seen[key] = true
					todo = append(todo, next)
				}
			}
		}
		states += len(seen)
	}
	t.Log(states, "states")
	assert.Greater(t, states, 1000)
}

// rounds is how much of a test there is to be, usually and with -short.
func rounds(usual, short int) int {
	if testing.Short() {
		return short
	}
	return usual
}
