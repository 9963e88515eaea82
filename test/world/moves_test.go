package world

import (
	"errors"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/test/server"
)

// A move is something that happens: one of the table, for one of several things.
type move struct{ what, arg uint8 }

// everything that may happen; %s is for which token, or which message.
var everything = []struct {
	name string
	of   func(w *world) int // for how many things it may happen
	may  func(w *world, i int) bool
	do   func(w *world, i int)
}{
	{"token %s: a lock is asked for", tokens, func(w *world, i int) bool {
		t := w.attempts[i]
		return !t.locked && !t.foreign && !w.ended && (i == 0 || w.attempts[i-1].locked) // They are alike.
	}, func(w *world, i int) {
		w.attempts[i].locked = true
		for _, other := range w.attempts {
			if other.released {
				w.attempts[i].behind |= 1 << other.id
			}
		}
		w.ask(w.attempts[i], node.LockRequest, w.lock())
	}},
	{"token %s: the lock is asked for again", tokens, func(w *world, i int) bool {
		t := w.attempts[i]
		waits := slices.ContainsFunc(w.calls, func(c *call) bool { return c.of == t && !c.answered && !c.done })
		return w.holds(i) && !waits && !t.heard && t.again < w.askedAgain
	}, func(w *world, i int) {
		w.attempts[i].again++
		w.attempts[i].refused = false
		w.ask(w.attempts[i], node.LockRequest, w.lock())
	}},
	{"token %s: the lock is extended", tokens, func(w *world, i int) bool {
		return w.holds(i) && w.attempts[i].extended < w.extensions
	}, func(w *world, i int) {
		w.attempts[i].extended++
		w.ask(w.attempts[i], node.Ask, extend)
	}},
	{"token %s: the lock is repaired", tokens, func(w *world, i int) bool {
		return w.holds(i) && w.attempts[i].missing && w.attempts[i].repaired < w.repairs
	}, func(w *world, i int) {
		w.attempts[i].repaired++
		w.attempts[i].repairs = w.now
		w.attempts[i].missing = false
		w.ask(w.attempts[i], node.RepairRequest, repair)
	}},
	{"token %s is released", tokens, func(w *world, i int) bool {
		t := w.attempts[i]
		return (t.locked || t.foreign) && !t.released && !w.over // Also when the node is being closed.
	}, func(w *world, i int) {
		w.attempts[i].released = true
		w.ask(w.attempts[i], node.Release, w.attempts[i].release())
	}},
	{"token %s is released once more", tokens, func(w *world, i int) bool {
		return w.attempts[i].released && !w.over && w.done.repeats < w.repeats
	}, func(w *world, i int) {
		w.done.repeats++
		w.ask(w.attempts[i], node.Release, w.attempts[i].release())
	}},
	{"token %s: nobody waits any more for the answer to its release", tokens, func(w *world, i int) bool {
		return w.withdraws && slices.ContainsFunc(w.calls, func(c *call) bool { return c.isReleaseOf(w.attempts[i]) && !c.answered && !c.given })
	}, func(w *world, i int) {
		for _, c := range w.calls {
			if c.isReleaseOf(w.attempts[i]) {
				c.given = true
				c.done = w.n.Withdraw(c.q) || c.done
			}
		}
		w.after()
	}},
	{"token %s: what was not written is taken back, and the rest released", tokens, func(w *world, i int) bool {
		return w.withdraws && w.holds(i)
	}, func(w *world, i int) {
		t := w.attempts[i]
		t.released = true
		for _, c := range w.calls {
			c.done = c.of == t && w.n.Withdraw(c.q) || c.done
		}
		before := w.n.Stats(w.at()).Backlog
		t.givenBack++
		w.n.Release(&t.Trace, 0, w.at())
		if (t.refused && !t.doubted || !t.touched && !t.foreign) && w.n.Stats(w.at()).Backlog > before {
			w.wrong("a release is sent of a lock request that the server has refused")
		}
		w.after()
	}},

	{"the writer writes", once, func(w *world, _ int) bool { return w.c != nil && w.n.Queued(w.c) > 0 }, func(w *world, _ int) { w.write() }},
	{"the server carries out the next request", once, func(w *world, _ int) bool { return len(w.wire) > 0 }, func(w *world, _ int) { w.serve() }},
	{"its answer is heard", once, func(w *world, _ int) bool { return len(w.replies) > 0 }, func(w *world, _ int) { w.read() }},
	{"the server refuses the next request", once, func(w *world, _ int) bool {
		return w.isNext() && w.done.refusals < w.refusals
	}, func(w *world, _ int) {
		w.done.refusals++
		w.calm = false
		m := w.pull()
		switch m.part {
		case 0:
			m.refused = m.script == lock
		case 1:
			w.wire[0].refused = true
		}
		w.hear(reply{to: m, err: errors.New("BUSY a script")})
	}},
	{"a proxy gives up on the next request, which goes on", once, func(w *world, _ int) bool {
		return w.isNext() && w.done.giveUps < w.giveUps
	}, func(w *world, _ int) {
		w.done.giveUps++
		w.calm = false
		m := w.pull()
		w.delay(m)
		w.doubt(m)
		w.hear(reply{to: m, err: errors.New("ERR upstream timeout")})
	}},
	{"the next request will arrive again", once, func(w *world, _ int) bool {
		return w.isNext() && w.wire[0].isOfToken() && w.wire[0].part != 2 && w.done.doubles < w.doubles
	}, func(w *world, _ int) {
		w.done.doubles++
		w.delay(w.wire[0])
		w.of(w.wire[0]).doubled = true
	}},
	{"the answer is nonsense", once, func(w *world, _ int) bool {
		return len(w.replies) > 0 && w.replies[0].err == nil && w.done.nonsense < w.nonsense
	}, func(w *world, _ int) {
		w.done.nonsense++
		w.doubt(w.replies[0].to)
		w.replies[0].value = "QUEUED"
		w.read()
	}},

	{"something in between loses the next request, and answers nonsense", once, func(w *world, _ int) bool {
		return w.isNext() && w.done.nonsense < w.nonsense
	}, func(w *world, _ int) {
		w.done.nonsense++
		m := w.pull()
		w.doubt(m)
		w.hear(reply{to: m, value: "QUEUED"})
	}},
	{"something in between answers nonsense to the next request, which goes on", once, func(w *world, _ int) bool {
		return w.isNext() && w.done.nonsense < w.nonsense
	}, func(w *world, _ int) {
		w.done.nonsense++
		m := w.pull()
		w.delay(m)
		w.doubt(m)
		w.hear(reply{to: m, value: "QUEUED"})
	}},
	{"the connection breaks", once, func(w *world, _ int) bool { return w.c != nil && w.done.breaks < w.breaks }, func(w *world, _ int) {
		w.done.breaks++
		w.end(errors.New("broken"))
	}},
	{"nothing comes for a second, and the watchdog looks", once, func(w *world, _ int) bool {
		return w.c != nil && len(w.wire) > 0 && w.done.silences < w.silences
	}, func(w *world, _ int) {
		w.done.silences++
		w.silence()
	}},
	{"the reply is too long to be read", once, func(w *world, _ int) bool {
		return w.long && len(w.replies) > 0 && w.replies[0].value == -1
	}, func(w *world, _ int) {
		w.neverDirect = true
		w.end(errLong)
	}},
	{"the process stops for a while", once, func(w *world, _ int) bool { return w.c != nil && w.done.stops < w.stops }, func(w *world, _ int) {
		w.done.stops++
		w.now += time.Second
	}},
	{"the watchdog looks", once, func(w *world, _ int) bool {
		return w.c != nil && w.alarm > 0 && w.done.looks < w.looks
	}, func(w *world, _ int) {
		w.done.looks++
		w.watch()
	}},
	{"the machine sleeps for an hour", once, func(w *world, _ int) bool { return w.done.sleeps < w.sleeps }, func(w *world, _ int) {
		w.done.sleeps++
		w.slept += ttl
		w.server.Expire(w.clock())
		for _, t := range w.attempts {
			t.vanishes = false
		}
		if w.wake() {
			w.after()
			w.end(nil)
		}
	}},
	{"others find another server at the address", once, func(w *world, _ int) bool { return w.c != nil && w.done.anews < w.anews }, func(w *world, _ int) {
		w.done.anews++
		if w.askedAnew == 0 || w.now-w.askedAnew >= 30*time.Second {
			w.oldAt, w.askedAnew = w.now, w.now
		}
		w.n.LookAgain(w.at())
		w.after()
	}},
	{"something is asked aside", once, func(w *world, _ int) bool { return w.done.asides < w.asides }, func(w *world, _ int) {
		w.done.asides++
		may := w.n.State() == node.Up && !w.ended && !w.isSilent(w.timeout())
		sent := w.n.Aside(0, node.Command{Script: aside, Keys: resource}, &w.mail, w.at())
		if sent {
			w.mail++
		}
		if sent != may && w.isOnTime() {
			w.wrong("what is asked aside is sent, or not, as it should not be")
		}
		w.after()
	}},
	{"an attempt is turned away elsewhere", once, func(w *world, _ int) bool { return w.patient && w.c != nil }, func(w *world, _ int) {
		w.turnedAway = w.turnedAway || w.isSilent(w.timeout())
		w.n.RefusedElsewhere(w.at(), w.timeout())
		w.after()
	}},
	{"the server grants nothing from now on", once, func(w *world, _ int) bool { return !w.abstains && w.done.quarantine < w.quarantine }, func(w *world, _ int) {
		w.done.quarantine++
		w.abstains = true
	}},
	{"the server grants again", once, func(w *world, _ int) bool { return w.abstains }, func(w *world, _ int) { w.abstains = false }},
	{"the process stands still for a second", once, func(w *world, _ int) bool { return w.c != nil && w.done.wakes < w.wakes }, func(w *world, _ int) {
		w.done.wakes++
		w.now += time.Second
		if w.wake() {
			w.after()
			w.end(nil)
		}
	}},
	{"connecting fails", once, func(w *world, _ int) bool { return w.isConnecting() && w.done.fails < w.fails }, func(w *world, _ int) {
		w.done.fails++
		w.failed = true
		w.stalled = false
		cause := errors.New("refused")
		failed, why := w.n.Rest(cause, w.at())
		if !errors.Is(w.n.Unreached(), cause) {
			w.wrong("the reason why it is not connected is not said")
		}
		w.after()
		if !w.stalled {
			w.wrong("nobody is told that there is no connection for a while")
		}
		w.fail(failed, why)
		if w.n.MayEnd() {
			w.leave()
		}
	}},
	{"the pool does not let go of the node", once, func(w *world, _ int) bool {
		return w.n.State() == node.Connecting && w.c == nil && !w.failed && w.done.fails < w.fails
	}, func(w *world, _ int) {
		w.done.fails++
		w.failed, w.stalled = true, false
		w.n.Waits()
		w.after()
		if !w.stalled {
			w.wrong("nobody is told that there is no connection for a while")
		}
	}},
	{"the next attempt to connect begins", once, func(w *world, _ int) bool { return w.n.State() == node.Backoff && w.fails > 0 }, func(w *world, _ int) {
		w.n.Retry()
		w.after()
	}},
	{"a connection is made", once, func(w *world, _ int) bool { return w.isConnecting() }, func(w *world, _ int) { w.connect() }},
	{"another connection is to follow", once, func(w *world, _ int) bool {
		return w.c != nil && w.next == nil && w.done.renewals < w.renewals
	}, func(w *world, _ int) {
		w.done.renewals++
		for _, t := range w.attempts {
			t.must = t.kept && !w.isReleasing(t)
		}
		if w.next = w.conn(); !w.n.HandOver(w.c, w.next, w.at()) {
			w.next = nil
		}
		w.after()
	}},
	{"that does not come to it, and the old one goes on", once, func(w *world, _ int) bool { return w.c != nil && w.next != nil }, func(w *world, _ int) {
		w.n.Stay(w.c)
		w.next = nil
		for _, t := range w.attempts {
			t.must = false
		}
		w.after()
	}},
	{"the node is closed", once, func(w *world, _ int) bool { return w.closes && !w.ended }, func(w *world, _ int) {
		w.ended, w.calm = true, w.c != nil && w.next == nil && w.n.Stats(w.at()).Backlog == 0
		for _, t := range w.attempts {
			t.lateAtClose = t.undone && w.server[0].Token == t.id && t.over
		}
		switch over := w.n.Close(w.at()); {
		case w.n.State() == node.Closed:
			w.over = true
		case over && w.c == nil:
			w.leave()
		}
		w.after()
		if w.c != nil && w.n.Stats(w.at()).PendingReleases > 0 && w.n.Queued(w.c)+len(w.wire)+len(w.replies) == 0 && w.next == nil {
			w.wrong("what the server has refused is not sent again at once when the node is closed")
		}
	}},
	{"the instant comes that the node has asked for", once, func(w *world, _ int) bool {
		return w.c != nil && w.due > 0 && w.done.ticks < w.ticks
	}, func(w *world, _ int) {
		w.done.ticks++
		w.tick()
	}},

	{"late message %s comes", func(w *world) int { return len(w.late) }, func(w *world, i int) bool {
		return !slices.ContainsFunc(w.late[:i], func(m message) bool { return m.script == w.late[i].script && m.tokens[0] == w.late[i].tokens[0] })
	}, func(w *world, i int) {
		m := w.late[i]
		w.late = slices.Delete(slices.Clone(w.late), i, i+1)
		w.carry(m)
	}},
	{"a short time passes without an answer", once, func(w *world, _ int) bool {
		return w.c != nil && w.done.pauses < w.pauses && (w.looks == 0 || w.now+pause <= w.alarm)
	}, func(w *world, _ int) {
		w.done.pauses++
		w.now += pause
	}},
	{"two minutes pass", once, func(w *world, _ int) bool {
		return w.done.minutes < w.minutes && w.c != nil && w.n.Stats(w.at()).PendingReleases == 0 && !slices.ContainsFunc(w.late, func(m message) bool { return w.of(m).foreign })
	}, func(w *world, _ int) {
		w.done.minutes++
		w.now += 2 * time.Minute
		w.server.Expire(w.clock())
	}},
	{"nearly an hour passes", once, func(w *world, _ int) bool { return len(w.late) == 0 && w.done.hours < w.hours }, func(w *world, _ int) {
		w.done.hours++
		w.now += ttl - time.Minute
		w.server.Expire(w.clock())
	}},
	{"the server loses its keys", once, func(w *world, _ int) bool { return w.server[0].Token > 0 && w.done.flushes < w.flushes }, func(w *world, _ int) {
		w.done.flushes++
		for _, t := range w.attempts {
			t.flushed = t.flushed || w.server[0].Token == t.id
			t.vanishes = t.vanishes || w.server[0].Token == t.id && t.heard && !t.released && !t.unsure && w.done.sleeps == 0
		}
		w.server, w.bell = server.Server{}, false
	}},
	{"the server forgets its scripts", once, func(w *world, _ int) bool { return w.knows && w.done.forgets < w.forgets }, func(w *world, _ int) {
		w.done.forgets++
		w.knows = false
	}},
	{"somebody gets in line", once, func(w *world, _ int) bool {
		return w.server[0].Token != 0 && !w.bell && w.done.waiters < w.waiters
	}, func(w *world, _ int) {
		w.done.waiters++
		w.bell = true
	}},
	{"another client locks", once, func(w *world, _ int) bool { return w.other && !w.locked && w.server[0].Token == 0 }, func(w *world, _ int) {
		w.locked, w.server = true, server.Server{{Token: -1, Until: w.clock() + 2*ttl}}
	}},
	{"the other client unlocks", once, func(w *world, _ int) bool { return w.server[0].Token == -1 }, func(w *world, _ int) {
		w.server = server.Server{}
		w.tell(true)
	}},
}

const pause = shortTimeout * 3 / 4

func once(*world) int     { return 1 }
func tokens(w *world) int { return len(w.attempts) }

// holds reports whether token i may be used by its own client.
func (w *world) holds(i int) bool {
	return w.attempts[i].locked && !w.attempts[i].released && !w.ended
}

// isNext reports whether the server has answered all before the next request, and that one is a script's.
func (w *world) isNext() bool {
	return len(w.wire) > 0 && len(w.replies) == 0 && w.wire[0].script != nil
}

func (w *world) isConnecting() bool { return w.c == nil && !w.over && w.n.State() != node.Idle }

// moves appends those that may happen now.
func (w *world) moves(all []move) []move {
	for k := range everything {
		for i := range everything[k].of(w) {
			if everything[k].may(w, i) {
				all = append(all, move{uint8(k), uint8(i)})
			}
		}
	}
	return all
}
