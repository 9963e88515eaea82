package quorum

import (
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/test/server"
)

// A move is something that happens.
type move struct {
	what              what
	who, claim, place uint8 // a client, its claim, and a node, a round or a kind
	how               uint8 // which of several ways
	luck              uint8 // with what is random
}

type what string

const (
	passes     what = "time passes"
	begins     what = "begins"
	asks       what = "asks"
	serves     what = "a node serves"
	hears      what = "hears"
	reading    what = "reads"
	rings      what = "its timer rings"
	silences   what = "its time is over"
	leaves     what = "gives up"
	takesIt    what = "takes the result"
	goesOn     what = "has rested"
	extending  what = "extends"
	unlocking  what = "releases"
	repairing  what = "repairs"
	settling   what = "looks at an extension or a release"
	breaking   what = "its connection breaks"
	again      what = "what comes twice does"
	flushing   what = "a node loses its keys"
	restarting what = "a node restarts"
	stopping   what = "stands still, or its machine sleeps"
	waking     what = "goes on"
)

// Ways to serve.
const (
	served  uint8 = iota
	expired       // the keys that may have ended have
	faulty
	reserving
	lying
	doubled // and once more later
)

// moves appends what may happen.
func (w *world) moves(all []move) []move {
	if w.together {
		for k := range w.limits.clients {
			if c := w.clients[k]; c.tries == 0 {
				return append(all, move{what: begins, who: c.id})
			}
		}
	}
	for k := range w.limits.clients {
		c := w.clients[k]
		all = w.arrivals(c, all)
		if c.stop != 0 {
			all = append(all, move{what: waking, who: c.id})
		} else {
			all = w.callers(c, all)
		}
	}
	for i := range w.limits.nodes {
		if w.may(flushes) && w.holds(i) {
			all = append(all, move{what: flushing, place: uint8(i)})
		}
		if w.may(restarts) {
			all = append(all, move{what: restarting, place: uint8(i)})
		}
	}
	if w.passes() > 0 {
		all = append(all, move{what: passes})
	}
	return all
}

func (w *world) may(t thing) bool { return w.used[t] < w.max[t] }

// arrivals are what nodes do for a client, and what it hears of them.
func (w *world) arrivals(c *client, all []move) []move {
	for j, cl := range c.claims {
		if cl.ended {
			continue
		}
		for i := range w.limits.nodes {
			m := move{who: c.id, claim: uint8(j), place: uint8(i)}
			if len(cl.wire[i]) > 0 && !in(w.mute, i) && w.now >= cl.wire[i][0].sent+w.leastTo(i) {
				all = w.ways(cl, i, m, all)
			}
			if len(cl.replies[i]) > 0 && c.stop == 0 {
				all = append(all, move{what: hears, who: m.who, claim: m.claim, place: m.place})
				if cl.replies[i][0].read == 0 && w.may(reads) {
					all = append(all, move{what: reading, who: m.who, claim: m.claim, place: m.place})
				}
			}
			if len(cl.copies[i]) > 0 {
				all = append(all, move{what: again, who: m.who, claim: m.claim, place: m.place})
				if w.anyExpiry && w.holds(i) {
					all = append(all, move{what: again, who: m.who, claim: m.claim, place: m.place, how: expired})
				}
			}
			if w.may(breaks) && (len(cl.replies[i]) > 0 || len(cl.wire[i]) > 0 && !cl.wire[i][0].mute) {
				m.what = breaking
				all = append(all, m)
				if m.how = 1; w.may(lates) && len(cl.wire[i]) > 0 {
					all = append(all, m)
				}
			}
		}
	}
	return all
}

// ways are those in which node i may carry out the first request.
func (w *world) ways(cl *claim, i int, m move, all []move) []move {
	first := cl.wire[i][0]
	m.what = serves
	must, may := w.ends(i)
	if w.anyExpiry { // A key that is gone matters where it stood in the way.
		_, _, other, _, _ := w.nodes[i].Look(int(cl.token), w.wants[cl.who])
		may = may && other != 0
	}
	if !must {
		all = append(all, m)
	}
	add := func(how uint8, t thing, if_ bool) {
		if if_ && w.may(t) {
			m.how = how
			all = append(all, m)
		}
	}
	if may || must {
		m.how = expired
		all = append(all, m)
	}
	add(faulty, faults, first.task != releaseTask)
	add(reserving, reserves, first.task == lockTask && w.nodes[i][0].Token == 0)
	add(lying, lies, w.fenced && (first.task == lockTask || first.task == raiseTask))
	add(doubled, twice, first.task != releaseTask)
	return all
}

// ends reports whether a key of node i must have ended, and whether one may have.
func (w *world) ends(i int) (must, may bool) {
	for _, k := range w.nodes[i] {
		if k.Token != 0 && k.Until != forGood {
			may = may || w.anyExpiry || w.now >= k.Until-w.drift-w.early
			must = must || !w.anyExpiry && w.now >= k.Until+w.drift
		}
	}
	return must, may
}

// callers are what a client does by itself.
func (w *world) callers(c *client, all []move) []move {
	m := move{who: c.id}
	add := func(what what, place int) {
		m.what, m.place = what, uint8(place)
		all = append(all, m)
	}
	for j, cl := range c.claims {
		if m.claim = uint8(j); cl.ended {
			continue
		}
		for n, r := range cl.rounds {
			switch {
			case r.silencing:
				add(silences, n)
			case r.armed && w.mono(c) >= r.due+cl.since(r):
				add(rings, n)
			case r.armed && w.may(premature):
				add(rings, n)
			}
			if r != settled && r.begun && (r.Stage != lease.Over || !r.taken) && w.may(giveUps) && n == len(cl.rounds)-1 && r.Kind <= lease.Extending {
				add(leaves, n)
			}
		}
	}
	cl := c.current()
	switch c.phase {
	case idle:
		if c.tries < w.tries[c.id] && w.tokens <= w.limits.claims && (!w.foreign || int(c.id) < w.limits.clients-1 || w.clients[0].current() != nil) {
			add(begins, 0)
		}
	case asking:
		m.claim = uint8(len(c.claims) - 1)
		if r := cl.rounds[0]; !r.begun {
			add(asks, 0)
		} else if r.done {
			add(takesIt, 0)
		}
	case resting:
		if w.mono(c) >= c.rest {
			add(goesOn, 0)
		}
	case holding, ending:
		m.claim = uint8(len(c.claims) - 1)
		all = w.holders(c, cl, m, all)
	}
	if (w.may(stops) || w.may(sleeps)) && len(c.claims) > 0 {
		if w.may(stops) {
			all = append(all, move{what: stopping, who: c.id, how: 1})
		}
		if w.may(sleeps) {
			all = append(all, move{what: stopping, who: c.id, how: 2})
		}
	}
	return all
}

// holders are what a client does that has a lock.
func (w *world) holders(c *client, cl *claim, m move, all []move) []move {
	n := len(cl.rounds) - 1
	m.place = uint8(n)
	if r := cl.rounds[n]; (n > 0 || r.Kind == lease.Releasing) && !r.taken {
		if r.done {
			m.what = settling
			all = append(all, m)
		}
		if r.Kind != lease.Extending || c.phase == ending {
			return all
		}
	} else if c.phase == holding && w.may(extends) && w.remaining(c) > 0 {
		m.what = extending
		all = append(all, m)
	}
	if c.phase == holding && w.may(unlocks) {
		m.what = unlocking
		all = append(all, m)
	}
	for i := range w.sees(c) {
		if c.phase == holding && w.may(repairs) && w.remaining(c) > 0 {
			m.what, m.place = repairing, uint8(i)
			all = append(all, m)
		}
	}
	return all
}

// since is when a round has started, by the client's own clock.
func (cl *claim) since(r *round) time.Duration { return r.Start.Sub(epoch) }

// passes is how much time may pass before something is due; 0: none.
func (w *world) passes() time.Duration {
	if w.untimed {
		return 0
	}
	next := time.Duration(-1)
	due := func(d time.Duration) {
		if next < 0 || d < next {
			next = max(d, 0)
		}
	}
	for k := range w.limits.clients {
		c := w.clients[k]
		for _, cl := range c.claims {
			if cl.ended {
				continue
			}
			for _, r := range cl.rounds {
				if r.armed && c.stop != 2 && (c.stop == 0 || r.due+cl.since(r) > w.mono(c)) {
					due(r.due + cl.since(r) - w.mono(c))
				}
			}
			w.inTime(cl, due)
		}
		if c.stop == 0 {
			w.waits(c, due)
		}
	}
	if w.may(ticks) && (next < 0 || next > w.unit) {
		return w.unit
	}
	return max(next, 0)
}

// waits is until when a client waits for itself.
func (w *world) waits(c *client, due func(time.Duration)) {
	switch c.phase {
	case resting:
		due(c.rest - w.mono(c))
	case asking:
		r := c.current().rounds[0]
		if w.trip != 0 && r.done && !w.may(delays) || !r.begun && !w.may(lags) {
			due(0)
		}
	case holding, ending:
		if left := w.remaining(c); left > 0 && w.max[ticks] > 0 && w.may(ticks) {
			due(left)
		}
	}
}

// inTime has no time pass in which an answer would come too late, where all come in time.
func (w *world) inTime(cl *claim, due func(time.Duration)) {
	if w.trip == 0 {
		return
	}
	for i := range w.limits.nodes {
		if in(w.mute, i) {
			continue
		}
		for _, m := range cl.wire[i] {
			due(m.sent + w.tripTo(i) - w.now)
			if first := m.sent + w.leastTo(i) - w.now; first > 0 {
				due(first)
			}
		}
		for _, m := range cl.replies[i] {
			due(m.sent + w.tripTo(i) - w.now)
		}
	}
}

func (w *world) leastTo(i int) time.Duration {
	if w.slow {
		return max(w.least, w.takes[i])
	}
	return w.least
}

func (w *world) tripTo(i int) time.Duration { return max(w.trip, w.takes[i]) }

// does carries out a move in a world that may be changed.
func (w *world) does(m move) {
	if m.what == passes {
		w.pass()
		return
	}
	if m.what == flushing || m.what == restarting {
		w.lose(m)
		return
	}
	c := w.own(int(m.who))
	w.s.luck = m.luck
	w.s.on(w, c)
	var cl *claim
	if int(m.claim) < len(c.claims) {
		cl = c.claims[m.claim]
	}
	i := int(m.place)
	w.moved(c, cl, i, m)
	if r := c.awaited(); r != nil && r.done && c.stop == 0 {
		if w.may(delays) {
			w.used[delays] += r.delay()
		} else {
			w.takesIt(c, c.current())
		}
	}
}

// awaited is the round of an attempt that a client waits for.
func (c *client) awaited() *round {
	if c.phase != asking {
		return nil
	}
	return c.current().rounds[0]
}

// delay is 1 once.
func (r *round) delay() uint8 {
	if r.delayed {
		return 0
	}
	r.delayed = true
	return 1
}

func (w *world) moved(c *client, cl *claim, i int, m move) {
	switch m.what {
	case begins:
		w.begins(c)
	case asks:
		w.asks(c, cl)
	case serves:
		w.serves(c, cl, i, m.how)
	case hears:
		w.hears(c, cl, i)
	case reading:
		w.used[reads]++
		q := append([]reply{}, cl.replies[i]...)
		q[0].read = w.mono(c)
		cl.replies[i] = q
	case rings:
		if r := cl.rounds[i]; w.mono(c) < r.due+cl.since(r) {
			w.used[premature]++
		}
		w.tick(c, cl, i)
	case silences:
		w.silence(c, cl, i)
	case leaves:
		w.used[giveUps]++
		w.givesUp(c, cl, i)
	case takesIt:
		w.takesIt(c, cl)
	case goesOn:
		w.goesOn(c)
	case extending:
		w.used[extends]++
		w.extends(c, cl)
	case unlocking:
		w.used[unlocks]++
		w.unlocks(c, cl)
	case repairing:
		w.used[repairs]++
		w.send(cl, i, message{task: repairTask, round: background})
	case settling:
		w.settles(c, cl, i)
	case breaking:
		w.breaks(c, cl, i, m.how == 1)
	case again:
		w.comesAgain(cl, i, m.how)
	case stopping:
		c.stop = m.how
		w.used[[...]thing{1: stops, 2: sleeps}[m.how]]++
	case waking:
		c.stop = 0
	}
}

func (w *world) pass() {
	d := w.passes()
	if d == w.unit && w.may(ticks) {
		w.used[ticks]++
	}
	w.now += d
	for k := range w.limits.clients {
		if w.clients[k].stop == 2 {
			w.own(k).slept += d
		}
		if c := w.clients[k]; c.phase == holding && c.current().rounds[len(c.current().rounds)-1].taken && w.remaining(c) <= 0 {
			w.own(k).phase = idle // Its lock has ended.
		}
	}
}

// lose has a node lose its keys, or all.
func (w *world) lose(m move) {
	w.used[flushes]++
	for r := range w.nodes[m.place] {
		w.nodes[m.place][r].Token, w.nodes[m.place][r].Until = 0, 0
	}
	if m.what == restarting {
		w.used[flushes]--
		w.used[restarts]++
		w.nodes[m.place] = server.Server{}
		if !w.forgetful {
			w.closed[m.place] = w.now + w.ttl + w.drift
		}
	}
}

// holds reports whether node i has keys of locks.
func (w *world) holds(i int) bool {
	return slices.ContainsFunc(w.nodes[i][:], func(k server.Key) bool { return k.Token != 0 })
}

// begins has a client look at the clock for an attempt to get a lock. Another one, or the same a while later, asks.
func (w *world) begins(c *client) {
	c.tries++
	c.phase, c.began, c.split, c.extra, c.contest = asking, w.mono(c), false, 0, 0
	if w.foreign && int(c.id) == w.limits.clients-1 {
		w.releases(c)
		return
	}
	w.claims(c, nil)
}

// claims makes a claim, and the round that asks for it.
func (w *world) claims(c *client, contest *lease.Contest) {
	cl := &claim{who: c.id, nr: uint8(len(c.claims)), token: w.tokens, start: w.now, floor: w.floor(c)}
	if w.oneToken {
		cl.token = 1
	}
	w.tokens++
	c.claims = push(c.claims, cl)
	r := w.newRound(c, cl, lease.Locking)
	r.Validity, r.Lead, r.Token, r.Contest = w.validity(), c.slept, w.tokenName(cl.token), contest
	if w.fenced {
		r.Fencing = lease.NewFencing(w.sees(c))
		if w.blocks {
			r.Fencing.OwnBlock()
		}
	}
	c.phase = asking
	if !w.may(lags) {
		w.asks(c, cl)
	}
}

func (w *world) asks(c *client, cl *claim) {
	r := cl.rounds[0]
	w.s.on(w, c)
	if w.mono(c) > cl.since(r) {
		w.used[lags]++
		c.extra += w.mono(c) - cl.since(r)
	}
	limit := r.AnswersIn(w.at(c))
	if r.Contest == nil {
		limit = min(limit, w.patience)
	}
	w.begin(c, cl, 0, limit)
}

func (w *world) tokenName(token uint8) string { return w.s.names[token] }

// floor is the largest fence that a new attempt is to be above.
func (w *world) floor(c *client) (floor int64) {
	for k := range w.limits.clients {
		for _, cl := range w.clients[k].claims {
			if w.wants[k]&w.wants[c.id] != 0 {
				floor = max(floor, cl.fence)
			}
		}
	}
	return floor
}

// releases has the last client release the first one's lock.
func (w *world) releases(c *client) {
	c.phase = ending
	token := w.clients[0].current().token
	cl := &claim{who: c.id, nr: uint8(len(c.claims)), token: token, start: w.now, released: true}
	c.claims = push(c.claims, cl)
	w.newRound(c, cl, lease.Releasing)
	w.begin(c, cl, 0, w.patience)
}

func (w *world) hears(c *client, cl *claim, i int) {
	m := cl.replies[i][0]
	cl.replies[i] = cl.replies[i][1:]
	at := w.at(c)
	if m.read != 0 {
		at = epoch.Add(m.read)
	}
	if m.task == lockTask && m.stance == node.No {
		cl.left[i] = false
		for _, other := range cl.wire[i] {
			cl.left[i] = cl.left[i] || other.task == lockTask
		}
	}
	if m.round == background || cl.rounds[0] == settled {
		return
	}
	w.vote(c, cl, int(m.round), i, m.outcome(w), at)
}

// outcome is what a reply is to a round.
func (m *reply) outcome(w *world) (out node.Outcome) {
	out.Stance, out.Fence, out.Found = m.stance, m.fence, m.found
	switch {
	case m.fault == reserved:
		out.Err = errReserved
	case m.fault == refuses:
		out.Err = errFault
	case m.stance != node.Yes:
		out.Err = errTaken
	}
	if m.holder != 0 {
		out.Holder = &w.s.holders[m.holder]
	}
	return out
}

// givesUp has nobody wait for a round any more.
func (w *world) givesUp(c *client, cl *claim, n int) {
	r := cl.rounds[n]
	w.s.on(w, c)
	before := *r
	e := r.GiveUp()
	if before.Stage == lease.Over { // It was over when that was heard of: the result is taken.
		if e != 0 || r.Verdict != before.Verdict {
			w.wrong("a round is given up that is over")
		}
		return
	}
	w.checkGiveUp(&before, r, e)
	r.gaveUp = true
	w.carryOut(c, cl, n, e)
	if n > 0 {
		return
	}
	r.taken = true
	w.checkEnd(r)
	c.phase, c.last = idle, r.Verdict
}

// takesIt has a client take what an attempt has come to.
func (w *world) takesIt(c *client, cl *claim) {
	r := cl.rounds[0]
	w.s.on(w, c)
	before := *r
	left := r.Until().Remaining(w.at(c), c.slept)
	e := r.Take(w.at(c), w.atLeast)
	w.checkTake(c, cl, &before, r, e)
	w.carryOut(c, cl, 0, e)
	r.taken, c.last = true, r.Verdict
	switch r.Verdict {
	case lease.Granted:
		c.phase, c.until, c.got = holding, r.Until(), true
		w.checkHold(c, cl, left)
	case lease.Behind:
		c.phase, c.rest = resting, w.mono(c)+r.Contest.Rest
	default:
		c.phase = idle
		w.checkEnd(r)
	}
}

// goesOn has a client that has rested ask with a new claim.
func (w *world) goesOn(c *client) {
	contest := c.current().rounds[0].Contest
	if contest.IsOver(w.at(c)) || w.tokens > w.limits.claims {
		c.phase, c.last = idle, lease.Taken
		return
	}
	w.claims(c, contest)
}

func (w *world) extends(c *client, cl *claim) {
	r := w.newRound(c, cl, lease.Extending)
	until := c.until
	r.ends = w.now + w.remaining(c)
	r.Validity, r.Lead, r.Valid = w.validity(), c.slept, &until
	w.begin(c, cl, len(cl.rounds)-1, w.patience)
}

func (w *world) unlocks(c *client, cl *claim) {
	c.phase = ending
	r := w.newRound(c, cl, lease.Unlocking)
	cl.released = true
	r.begun = true
	w.begin(c, cl, len(cl.rounds)-1, w.patience)
}

// settles has a client look at what an extension or a release has come to.
func (w *world) settles(c *client, cl *claim, n int) {
	r := cl.rounds[n]
	r.taken = true
	if r.Kind != lease.Extending {
		c.phase, c.last = idle, r.Verdict
		return
	}
	if v := r.Verdict; v == lease.Granted && w.remaining(c) > 0 && !r.Until().Passed(w.at(c), c.slept) {
		c.until = c.until.Later(r.Until())
	} else if v == lease.Lost {
		c.until = lease.NewDeadline(w.at(c), 0, c.slept) // It is over for the holder.
	}
	w.checkExtended(r)
}

// breaks ends the connection of a claim to node i.
func (w *world) breaks(c *client, cl *claim, i int, late bool) {
	w.used[breaks]++
	var failed []uint8
	var kept, again []message
	for _, m := range cl.wire[i] {
		switch {
		case m.task == releaseTask && !m.mute:
			again = append(again, m)
		case m.task != releaseTask && !m.mute && m.round != background && cl.rounds[0] != settled:
			failed = append(failed, m.round)
		}
		if late || m.mute {
			m.mute = true
			kept = append(kept, m)
		}
	}
	if late {
		w.used[lates]++
	}
	for _, m := range cl.replies[i] {
		switch {
		case m.task == releaseTask:
			again = append([]message{{task: releaseTask, round: m.round, sent: m.sent}}, again...)
		case m.round != background && cl.rounds[0] != settled:
			failed = append([]uint8{m.round}, failed...)
		}
	}
	cl.wire[i], cl.replies[i] = append(kept, again...), nil
	for _, n := range failed {
		w.vote(c, cl, int(n), i, node.Outcome{Err: errBroken}, w.at(c))
	}
}
