package quorum

import (
	"time"

	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/test/server"
)

// This file does what redlock/round.go does: it tells a lease.Round what has happened, and carries out what it wants.

// newRound prepares a round of a claim.
func (w *world) newRound(c *client, cl *claim, kind lease.Kind) *round {
	r := &round{}
	r.Config, r.Kind, r.Patience = w.s.configs[w.sees(c)], kind, w.patience
	r.Ballots = make([]lease.Ballot, w.sees(c))
	r.Start = w.at(c)
	cl.rounds = push(cl.rounds, r)
	return r
}

// begin asks all nodes.
func (w *world) begin(c *client, cl *claim, n int, limit time.Duration) {
	r := cl.rounds[n]
	r.begun, r.limit = true, limit
	for i := range r.Ballots {
		r.own[i] = node.Pending
		if s := r.Ballots[i].Stance; s != node.Silent {
			r.own[i] = s // Skipped.
		}
	}
	w.carryOut(c, cl, n, r.Begin(w.at(c), limit))
}

// vote tells a round what node i has said.
func (w *world) vote(c *client, cl *claim, n, i int, out node.Outcome, at time.Time) {
	r := cl.rounds[n]
	w.s.on(w, c)
	w.s.at = at
	before, said := *r, out
	e := r.Vote(i, &out, at)
	w.checkVote(c, cl, r, i, r.own[i] == node.Pending, &before, &said, &out, e)
	if e != 0 {
		if said.Stance == node.Yes {
			r.said[i] |= 1 << uint(said.Fence)
		}
		w.carryOut(c, cl, n, e)
	}
}

// miss tells a round that the time of node i was over for a question.
func (w *world) miss(c *client, cl *claim, n, i int, question uint32, why error) {
	r := cl.rounds[n]
	w.s.on(w, c)
	before, said := *r, node.Outcome{Err: why}
	e := r.Miss(i, question, why, w.at(c))
	w.checkVote(c, cl, r, i, r.own[i] == node.Pending && question == before.Question, &before, &said, &said, e)
	if e != 0 {
		w.carryOut(c, cl, n, e)
	}
}

// tick is a round's timer.
func (w *world) tick(c *client, cl *claim, n int) {
	r := cl.rounds[n]
	w.s.on(w, c)
	now := w.at(c)
	before := *r
	e := r.Tick(now)
	w.checkTick(c, cl, &before, r, e)
	if !e.Has(lease.Overdue) {
		r.armed = false
		w.carryOut(c, cl, n, e)
		return
	}
	why := r.Silence(now)
	w.checkSilence(c, cl, r, why)
	r.silencing, r.from, r.upTo, r.why = true, 0, r.Question, why
	for r.silencing && !w.interleaved {
		w.silence(c, cl, n)
	}
}

// silence tells a round that the next node's time is over.
func (w *world) silence(c *client, cl *claim, n int) {
	r := cl.rounds[n]
	for int(r.from) < len(r.Ballots) {
		i := int(r.from)
		r.from++
		if r.own[i] == node.Pending {
			w.miss(c, cl, n, i, r.upTo, r.why)
			if w.interleaved {
				return
			}
		}
	}
	r.silencing, r.armed, r.why = false, false, nil
	w.arm(c, r)
}

// arm sets the timer.
func (w *world) arm(c *client, r *round) {
	if r.silencing {
		return
	}
	w.s.on(w, c)
	due, any := r.Due()
	r.armed, r.due = any, due
	if !any {
		r.due = 0
	}
}

// carryOut carries out what the rules want.
func (w *world) carryOut(c *client, cl *claim, n int, e lease.Effect) {
	r := cl.rounds[n]
	e = w.note(c, cl, n, e)
	if e.Has(lease.GiveBack) {
		w.checkGiveBack(c, cl, r, e)
		r.told = r.told || e.Has(lease.Wake)
	}
	var refused []int
	if e.Has(lease.Ask) {
		refused = w.ask(c, cl, n)
	}
	repairs := e.Has(lease.Settled) && r.Kind == lease.Extending && r.Verdict == lease.Granted
	w.arm(c, r)
	if e.Has(lease.Done) {
		w.done(c, cl, n)
	}
	for _, i := range refused {
		w.vote(c, cl, n, i, node.Outcome{Err: errTurned}, w.at(c))
	}
	if e.Has(lease.GiveBack) {
		w.giveBack(cl)
	}
	if repairs && !cl.released && c.phase == holding {
		for i := range r.Ballots {
			if r.Ballots[i].Stance == node.Gone && w.remaining(c) > 0 {
				w.send(cl, i, message{task: repairTask, round: background})
			}
		}
	}
}

// note notes what was decided, and goes on. It returns what is to be done besides.
func (w *world) note(c *client, cl *claim, n int, e lease.Effect) lease.Effect {
	r := cl.rounds[n]
	for all := e; ; all |= e {
		w.checkEffects(c, r, e)
		if !e.Has(lease.More) {
			w.checkStep(c, r, all)
			return all
		}
		before := *r
		e = r.Next(w.at(c))
		w.checkContest(c, &before, r, e)
	}
}

// ask sends the requests, and returns which are refused.
func (w *world) ask(c *client, cl *claim, n int) (refused []int) {
	r := cl.rounds[n]
	w.s.on(w, c)
	asked := 0
	for i := range r.Ballots {
		if !r.Asked(i) {
			continue
		}
		asked++
		m := message{round: uint8(n), sent: w.now}
		switch {
		case r.Kind == lease.Extending:
			m.task = extendTask
		case r.Kind == lease.Unlocking || r.Kind == lease.Releasing:
			m.task = releaseTask
		case r.Question > 0 && (r.Stage == lease.Raising || r.Stage == lease.Over && r.aim != 0):
			m.task, m.aim = raiseTask, r.Fencing.Aim
		}
		w.checkAsk(cl, r, i, m)
		r.own[i], r.of[i] = node.Pending, uint8(r.Question)
		if in(w.down, i) || cl.released && m.task != releaseTask {
			refused = append(refused, i)
			continue
		}
		w.send(cl, i, m)
	}
	if r.asks < 200 {
		r.asks++
	}
	w.checkAsked(c, cl, r, asked)
	return refused
}

// send puts a request on its way to node i.
func (w *world) send(cl *claim, i int, m message) {
	if m.task != releaseTask && cl.released {
		if m.task == lockTask {
			w.wrong("a node is asked for a lock that was given back")
		}
		return
	}
	m.sent = w.now
	if m.task == lockTask || m.task == repairTask {
		cl.left[i] = true
	}
	cl.wire[i] = push(cl.wire[i], m)
}

// giveBack has all nodes release what there may be of a claim.
func (w *world) giveBack(cl *claim) {
	if cl.released {
		return
	}
	cl.released = true
	for i := range w.limits.nodes {
		if cl.left[i] {
			w.send(cl, i, message{task: releaseTask, round: background})
		}
	}
}

// done is called when a round says that it is over.
func (w *world) done(c *client, cl *claim, n int) {
	r := cl.rounds[n]
	if r.done {
		w.wrong("a round is over twice")
	}
	r.done = true
	w.checkDone(c, cl, r)
	if n == 0 && r.Verdict == lease.Granted && r.Fencing != nil {
		cl.fence = r.Fencing.Fence
		w.checkFence(c, cl)
	}
}

// remaining is what is left of the lock that a client holds, by its own clock.
func (w *world) remaining(c *client) time.Duration { return c.until.Remaining(w.at(c), c.slept) }

// carry has node i carry out a request, and returns the answer.
func (w *world) carry(cl *claim, i int, m message) (out reply) {
	n, wants := &w.nodes[i], w.wants[cl.who]
	if w.foreign && int(cl.who) == w.limits.clients-1 {
		wants = w.wants[0]
	}
	out = reply{task: m.task, round: m.round, stance: node.No, sent: m.sent}
	if m.task == lockTask && in(w.refuse[cl.who], i) || w.now < w.closed[i] && (m.task == lockTask || m.task == repairTask) {
		out.stance, out.fault = node.Silent, refuses
		return out
	}
	token, until := int(cl.token), w.now+w.ttl
	switch m.task {
	case lockTask:
		w.locks(cl, i, &out)
	case raiseTask:
		out.is(n.Raise(token, wants, m.aim))
	case extendTask:
		out.stance = n.Extend(token, wants, until, cl.fence)
	case repairTask:
		out.stance = n.Repair(token, wants, until, cl.fence)
	case releaseTask:
		out.stance = n.Release(token, wants)
	}
	if in(w.leaves, i) && token == 1 {
		n[0].Token = 0
	}
	for _, k := range n {
		if k.Counter > 60 {
			panic("no room for so large a counter")
		}
	}
	return out
}

// locks is a lock request.
func (w *world) locks(cl *claim, i int, out *reply) {
	n, wants := &w.nodes[i], w.wants[cl.who]
	token, until := int(cl.token), w.now+w.ttl
	var g server.Grant
	switch proposal := w.proposals[cl.who]; {
	case !w.fenced:
		g.Stance, g.Holder = n.Lock(token, wants, until)
	case in(w.behind, i):
		g = n.LockWithFence(token, wants, until, 0)
	default:
		g = n.LockWithFence(token, wants, until, proposal)
	}
	out.is(g)
	if out.stance == node.Silent {
		out.fault = refuses
	}
	if in(w.unnamed, i) {
		out.holder = 0
	}
}

// is has the reply be the answer of a node.
func (m *reply) is(g server.Grant) {
	m.stance, m.fence, m.found, m.holder = g.Stance, g.Fence, g.Found, uint8(g.Holder)
}

// expire has the keys go that may have ended.
func (w *world) expire(i int) {
	for r := range w.nodes[i] {
		if k := &w.nodes[i][r]; k.Token != 0 && k.Until != forGood && (w.anyExpiry || w.now >= k.Until-w.drift-w.early) {
			k.Token, k.Until = 0, 0
		}
	}
}

// serves has node i carry out the first request of a claim.
func (w *world) serves(c *client, cl *claim, i int, how uint8) {
	m := cl.wire[i][0]
	cl.wire[i] = cl.wire[i][1:]
	if how == expired {
		w.expire(i)
	}
	var out reply
	switch how {
	case faulty:
		w.used[faults]++
		out = reply{task: m.task, round: m.round, stance: node.Silent, fault: refuses, sent: m.sent}
	case reserving:
		w.used[reserves]++
		out = reply{task: m.task, round: m.round, stance: node.No, fault: reserved, sent: m.sent}
	default:
		out = w.carry(cl, i, m)
	}
	if how == doubled {
		w.used[twice]++
		cl.copies[i] = push(cl.copies[i], m)
	}
	if how == lying && out.fence > 0 {
		w.used[lies]++
		if out.fence--; out.fence == 0 {
			out.fence = 2
		}
	}
	if m.mute {
		return
	}
	if m.task == releaseTask {
		cl.left[i] = false
	}
	if m.round == background {
		w.checkWire(cl, i)
		return
	}
	cl.replies[i] = push(cl.replies[i], out)
	w.checkWire(cl, i)
	if w.swift && c.stop == 0 {
		w.hears(c, cl, i)
	}
}

// comesAgain has node i carry out what it has carried out before. Behind its release it is released once more.
func (w *world) comesAgain(cl *claim, i int, how uint8) {
	if how == expired {
		w.expire(i)
	}
	m := cl.copies[i][0]
	cl.copies[i] = cl.copies[i][1:]
	out := w.carry(cl, i, m)
	cl.left[i] = cl.left[i] || m.task != raiseTask
	if cl.released && m.task != raiseTask {
		w.send(cl, i, message{task: releaseTask, round: background})
	}
	for j, r := range cl.replies[i] {
		if r.task == m.task && r.round == m.round {
			q := append([]reply{}, cl.replies[i]...)
			q[j] = out // It does not know which one it hears.
			cl.replies[i] = q
		}
	}
}
