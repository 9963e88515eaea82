package quorum

import (
	"time"

	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/node"
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
