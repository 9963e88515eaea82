package quorum

import (
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/node"
)

// This file is what must be so, said without the rules: from what nodes have answered, and the world's own time.

// A tally is how many nodes have voted how.
type tally struct{ yes, no, silent, pending int }

func (r *round) tally() (t tally) {
	for i := range r.Ballots {
		switch r.own[i] {
		case node.Yes:
			t.yes++
		case node.Silent:
			t.silent++
		case node.Pending:
			t.pending++
		default:
			t.no++
		}
	}
	return t
}

// truth is what votes have come to, whatever those do that are still out; undecided if that depends on them.
func truth(t tally, final func(t tally) lease.Verdict) lease.Verdict {
	v := lease.Undecided
	for yes := range t.pending + 1 {
		for no := range t.pending - yes + 1 {
			then := final(tally{t.yes + yes, t.no + no, t.silent + t.pending - yes - no, 0})
			if v != lease.Undecided && v != then {
				return lease.Undecided
			}
			v = then
		}
	}
	return v
}

// final is what votes come to that are all in. Spare is how many nodes may be missing.
func final(kind lease.Kind, need, spare int) func(t tally) lease.Verdict {
	return func(t tally) lease.Verdict {
		switch {
		case t.yes >= need:
			return lease.Granted
		case kind == lease.Locking && t.silent <= spare:
			return lease.Taken
		case kind != lease.Locking && t.no > spare:
			return lease.Lost
		case kind == lease.Unlocking && t.yes+t.no >= need:
			return lease.Granted
		}
		return lease.NoQuorum
	}
}

// ought is what a round's votes come to. It is in time if the validity that a quorum gives has not ended.
func (w *world) ought(c *client, cl *claim, r *round) lease.Verdict {
	t := r.tally()
	need, spare := w.need(len(r.Ballots)), w.spare(r)
	v := truth(t, final(r.Kind, need, spare))
	switch {
	case r.aim != 0 && v != lease.Granted && t.yes+t.pending < need:
		if v = lease.Taken; t.silent+t.pending > spare {
			v = lease.NoQuorum
		}
	case v == lease.Undecided && r.Kind == lease.Locking && r.aim == 0:
		return w.withoutSlow(c, r, t)
	case v == lease.Granted && r.Kind == lease.Extending && w.now >= r.ends:
		return lease.Expired
	case v == lease.Granted && r.Kind <= lease.Extending && w.left(c, cl, r) <= 0:
		return lease.NoQuorum
	}
	return v
}

// left is what is left of the validity that a quorum gives, by the world's time: all sleeps of the machine count.
func (w *world) left(c *client, cl *claim, r *round) time.Duration {
	if r.Kind == lease.Extending {
		return cl.since(r) + r.Lead + w.validity() - w.mono(c) - c.slept
	}
	return cl.start + w.validity() - w.now
}

// withoutSlow is what votes come to that are out only on nodes that take much longer than the others have.
func (w *world) withoutSlow(c *client, r *round, t tally) lease.Verdict {
	took := w.mono(c) - r.Start.Sub(epoch) - r.asked
	for i := range r.Ballots {
		if r.own[i] == node.Pending && (w.takes[i] <= 3*took || w.takes[i] <= took+ms) {
			return lease.Undecided
		}
	}
	t.silent, t.pending = t.silent+t.pending, 0
	if v := truth(t, final(r.Kind, w.need(len(r.Ballots)), w.spare(r))); v == lease.Taken && t.no > 0 {
		return v
	}
	return lease.Undecided
}

// checkVote looks at what a round makes of an answer.
func (w *world) checkVote(c *client, cl *claim, r *round, i int, out bool, before *round, said, worth *node.Outcome, e lease.Effect) {
	switch {
	case !out && e != 0:
		w.wrong("a vote counts that was not out")
		return
	case !out:
		return
	case e == 0:
		w.wrong("an answer does not count that nobody has voted before")
		return
	}
	raises := said.Stance == node.Yes && r.aim != 0 && said.Fence != r.aim
	if raises && said.Fence < r.aim && uint32(r.of[i]) < before.Question {
		if e != lease.Ask {
			w.wrong("a grant that comes late is not raised")
		}
		return
	}
	if !e.Has(lease.Counted) {
		w.wrong("a vote does not count")
	}
	r.own[i], r.last[i], r.named[i] = said.Stance, said.Fence, 0
	if r.turn &^= 1 << i; said.Err == errReserved { //nolint:errorlint // The very one.
		r.turn |= 1 << i
	}
	if said.Holder != nil {
		r.named[i] = said.Holder.Digest[0]
	}
	if raises {
		r.own[i] = node.Silent
	}
	if worth.Stance != r.own[i] {
		w.wrong("a vote is not worth what it says")
	}
	if b := &r.Ballots[i]; r.Question == before.Question && (b.Stance != r.own[i] || b.Took < 0 || b.Err != worth.Err || b.Holder != said.Holder) { //nolint:errorlint // The very one.
		w.wrong("a vote is told as another one")
	}
	if v := r.Standing(); r.Question == before.Question && r.aim == 0 && r.Kind != lease.Unlocking && v != w.standing(r) {
		w.wrong("the votes do not stand as is said")
	}
	w.checkVerdict(c, cl, before, r, e)
}

func (w *world) standing(r *round) lease.Verdict {
	return truth(r.tally(), final(r.Kind, w.need(len(r.Ballots)), w.spare(r)))
}

// checkVerdict looks at what a vote has decided.
func (w *world) checkVerdict(c *client, cl *claim, before, r *round, e lease.Effect) {
	told := lease.Undecided
	switch {
	case before.Stage == lease.Over:
		if e.Has(lease.Decided) || e.Has(lease.Done) || r.Stage != lease.Over || r.Verdict != before.Verdict {
			w.wrong("a vote changes what is over")
		}
		return
	case e.Has(lease.Raised):
		told = lease.Granted
	case e.Has(lease.Decided):
		told = r.Latest
	}
	v := w.ought(c, cl, r)
	if before.Stage >= lease.Gathering && r.tally().yes < w.need(len(r.Ballots)) {
		v = lease.Undecided
	}
	if told != v {
		w.wrong(fmt.Sprintf("votes that come to %d are told as %d", v, told))
	}
	if r.Contest != nil && r.aim == 0 && cl.nr == 0 && r.Question <= 3 && v == lease.NoQuorum && r.Verdict == v && w.mono(c) >= c.contest && w.s.at.Equal(w.at(c)) {
		w.wrong("the end of a contest is told as an outage")
	}
	if e.Has(lease.Done) && r.Verdict != v && (r.Contest == nil || v != lease.NoQuorum || r.Verdict != lease.Taken || !r.Contest.IsOver(w.at(c))) {
		w.wrong("a round has come to what its votes do not")
	}
}

// checkEffects looks at what is told how often.
func (w *world) checkEffects(c *client, r *round, e lease.Effect) {
	q := uint64(1) << (r.Question & 63)
	twice := func(seen *bool, is lease.Effect, why string) {
		if e.Has(is) && *seen {
			w.wrong(why)
		}
		*seen = *seen || e.Has(is)
	}
	twice(&c.split, lease.Split, "votes are split twice")
	twice(&r.raised, lease.Raised, "counters are found to differ twice")
	if e.Has(lease.Decided) {
		if r.decided&q != 0 && (r.Contest == nil || r.was != lease.Taken || r.tally().yes < w.need(len(r.Ballots))) {
			w.wrong("a question is decided twice")
		}
		r.decided, r.was = r.decided|q, r.Latest
	}
	if e.Has(lease.Settled) {
		if r.settles&q != 0 || r.tally().pending > 0 {
			w.wrong("a question is settled twice, or too early")
		}
		r.settles |= q
	}
	switch {
	case e.Has(lease.Settled | lease.Raised):
		w.wrong("a lock settles before its nodes have raised")
	case e.Has(lease.Wake) && !e.Has(lease.GiveBack):
		w.wrong("others are told of no release")
	case e.Has(lease.GiveBack) && (r.Kind != lease.Locking || r.Stage != lease.Over || r.Verdict == lease.Granted):
		w.wrong("a round gives back what it keeps")
	case e.Has(lease.Done) && r.Stage != lease.Over:
		w.wrong("a round says that it is over, and goes on")
	case r.Stage == lease.Over && !r.done && !e.Has(lease.Done):
		w.wrong("a round does not say that it is over")
	}
}

// checkStep looks at a round after a whole step.
func (w *world) checkStep(c *client, r *round, e lease.Effect) {
	if r.begun && r.tally().pending == 0 && !e.Has(lease.Ask) && r.settles>>(r.Question&63)&1 == 0 {
		w.wrong("nobody is told that no vote is out")
	}
	if r.Contest != nil && c.contest == 0 {
		now := w.mono(c)
		c.contest = now + lease.SplitLimit(w.patience, max(now-r.Start.Sub(epoch), 200*time.Microsecond))
	}
	if r.Stage == lease.Leading && r.Question == 0 {
		w.wrong("a claim leads that has not asked again")
	}
	if _, most, _ := r.seen(); r.Stage == lease.Gathering && !r.gathers && r.Question == 0 && (most >= w.need(len(r.Ballots)) || r.turn != 0) {
		w.wrong("a claim contends for what others have, or for their turn")
	}
	r.gathers = r.Stage == lease.Gathering
	if r.gathers && r.tally().pending == 0 {
		w.wrong("a contest waits for nobody")
	}
}

// checkContest looks at who leads where votes are split: whoever has more of them than anybody else that was named, and
// of equals the smallest digest. Nobody does who cannot see a quorum kept from all.
func (w *world) checkContest(c *client, before, r *round, e lease.Effect) {
	if before.Stage != lease.Gathering || r.Stage == lease.Gathering {
		return
	}
	mine, most, rival := before.seen()
	if !before.gathers && before.tally().pending > 0 {
		w.wrong("a contest does not wait for the votes that are out")
	}
	leads := mine > most || mine == most && before.Digest(before.Token) < rival
	switch {
	case e.Has(lease.Ask) && (!leads || most >= w.need(len(r.Ballots)) || mine == 0):
		w.wrong("a claim goes on that does not lead")
	case r.Verdict == lease.Behind && (leads || mine == 0 || most >= w.need(len(r.Ballots))):
		w.wrong("a claim gives way that leads, or to what others hold")
	case r.Stage == lease.Over && r.Verdict == lease.Taken && mine > 0 && most < w.need(len(r.Ballots)) && !r.Contest.IsOver(w.at(c)):
		w.wrong("a contest ends too early")
	case r.Stage == lease.Over && r.Verdict != lease.Taken && r.Verdict != lease.Behind:
		w.wrong("a contest ends as it cannot")
	}
}

// seen is how many votes a claim has, and who else was seen on most nodes, and on how many.
func (r *round) seen() (mine, most int, rival string) {
	held := map[string]int{}
	for i := range r.Ballots {
		switch r.own[i] {
		case node.Yes:
			mine++
		case node.No:
			name := ""
			if by := r.named[i]; by != 0 {
				name = string(rune(by))
			}
			held[name]++
		}
	}
	for name, n := range held {
		if n > most || n == most && name < rival {
			most, rival = n, name
		}
	}
	return mine, most, rival
}

// checkAsk looks at a request that node i is asked.
func (w *world) checkAsk(cl *claim, r *round, i int, m message) {
	under := false
	for _, q := range cl.wire[i] {
		under = under || q.task == lockTask && !q.mute
	}
	for _, q := range cl.replies[i] {
		under = under || q.task == lockTask
	}
	switch {
	case m.task == lockTask && under:
		w.wrong("a node has two lock requests of one claim")
	case m.task == lockTask && r.Question > 0 && r.own[i] != node.No && r.own[i] != node.Gone:
		w.wrong("a node is asked again that has not refused")
	case m.task == raiseTask && r.own[i] == node.Pending && r.aim == 0:
		w.wrong("a node is to raise that has not voted")
	case m.task == raiseTask && r.own[i] != node.Pending && r.last[i] == 0:
		w.wrong("a node is to raise that has not granted the lock, or has refused to")
	case r.Stage == lease.Over && m.task == lockTask:
		w.wrong("a round asks that is over")
	}
}

// checkAsked looks at what a round makes of the nodes that are not asked again.
func (w *world) checkAsked(c *client, cl *claim, r *round, asked int) {
	now := w.mono(c) - cl.since(r)
	if r.Question == uint32(r.question) && r.question != 0 {
		return // A grant that came late.
	}
	r.question, r.asked = uint8(r.Question), now
	if r.Stage != lease.Raising {
		r.given = r.Limit()
	}
	if limit := r.Limit(); limit > w.patience || r.Question == 0 && limit != r.limit || r.Kind == lease.Locking && limit > w.validity()-now {
		w.wrong("nodes have too long to answer")
	}
	if r.Question == 0 {
		return
	}
	if r.Stage != lease.Over && r.Latest != lease.Undecided {
		w.wrong("a question is decided as it is asked")
	}
	if asked == 0 {
		if r.Stage != lease.Over || r.Verdict != lease.Granted {
			w.wrong("nobody is asked once more")
		}
		return
	}
	if r.Stage != lease.Raising {
		for i := range r.Ballots {
			if r.own[i] == node.No || r.own[i] == node.Gone {
				w.wrong("a node is not asked again")
			}
		}
		return
	}
	if r.fenceBy == 0 {
		r.fenceBy = now + w.patience
	}
	if now+r.Limit() > r.fenceBy {
		w.wrong("raises take longer than a node timeout")
	}
	r.aim = r.Fencing.Aim
	if r.raises++; int(r.raises) > len(r.Ballots) {
		w.wrong("nodes are to raise again and again")
	}
	for i := range r.Ballots {
		switch last := r.last[i]; {
		case r.own[i] == node.Pending:
		case last == 0:
		case last == r.aim:
			r.own[i] = node.Yes
		case last > r.aim:
			r.own[i] = node.Silent
		default:
			w.wrong("a node is not asked to raise its counter")
		}
	}
}

// checkTick looks at a timer.
func (w *world) checkTick(c *client, cl *claim, before, r *round, e lease.Effect) {
	late := w.mono(c) - cl.since(r) - before.due
	due, any := r.Due()
	if late < 0 {
		if e != 0 || !any || due != before.due {
			w.wrong("a timer that comes early does something")
		}
		return
	}
	switch {
	case e == 0 && r.Stage == before.Stage && any && due == before.due:
		w.wrong("a timer comes, and changes nothing")
	case e.Has(lease.StoodStill) && (late < node.MinStandstill || r.stood != 0 || r.Stood != late):
		w.wrong("a process has stood still that has not")
	case e.Has(lease.Overdue) && late >= node.MinStandstill && r.stood == 0:
		w.wrong("a standstill is told as silence")
	case e.Has(lease.StoodStill):
		if r.stood = late; !any || due != w.mono(c)-cl.since(r)+node.Arrival {
			w.wrong("what has arrived in a standstill is not read first")
		}
		c.extra += late + node.Arrival
	case e.Has(lease.Overdue) && r.tally().pending == 0:
		w.wrong("the time is over of nobody")
	case e.Has(lease.Overdue) && r.Question == 0 && r.stood == 0 && w.mono(c)-cl.since(r) < r.limit:
		w.wrong("nodes have less time to answer than they were given")
	}
	w.checkContest(c, before, r, e)
}

// checkSilence looks at why nodes are said not to have voted.
func (w *world) checkSilence(c *client, cl *claim, r *round, why error) {
	want := node.ErrTimeout
	if r.Kind <= lease.Extending && w.left(c, cl, r) <= 0 {
		want = errTooLate
	}
	if r.stood != 0 {
		want = node.StandstillError(r.stood)
	}
	if why != want { //nolint:errorlint // The very one.
		w.wrong("nodes are said to be silent for another reason")
	}
}

// checkGiveBack looks at who is told of what a claim gives back: the next in line, if the claim has taken all its time
// or nobody waits for it, or it had the lock.
func (w *world) checkGiveBack(c *client, cl *claim, r *round, e lease.Effect) {
	tells := r.gaveUp || r.done || r.Verdict == lease.NoQuorum && (w.s.at.Sub(r.Start) >= r.given || w.left(c, cl, r) <= 0)
	if e.Has(lease.Wake) != tells {
		w.wrong("the next in line is told of a release that is not for it, or not told")
	}
}

// checkDone looks at a round that is over.
func (w *world) checkDone(c *client, cl *claim, r *round) {
	if r.Kind == lease.Locking && r.Verdict == lease.Granted {
		fence := int64(0)
		if r.Fencing != nil {
			fence = r.Fencing.Fence
		}
		votes := 0
		for i := range r.Ballots {
			votes += int(r.said[i] >> uint(fence) & 1)
		}
		if votes < w.need(len(r.Ballots)) {
			w.wrong("a lock is got that no quorum has granted, or not with that fence")
		}
		if w.left(c, cl, r) <= 0 {
			w.wrong("a lock is got that has ended")
		}
	}
	if r.Verdict == lease.Behind {
		w.checkRest(c, r)
	}
	if r.Verdict == lease.Taken {
		if votes := r.Telling(); !hasNo(votes) {
			w.wrong("a lock is taken, and no vote says so")
		}
	}
}

func hasNo(votes []lease.Ballot) bool {
	for i := range votes {
		if votes[i].Stance == node.No || votes[i].Stance == node.Gone {
			return true
		}
	}
	return false
}

// checkGiveUp looks at what a round says that nobody waits for any more.
func (w *world) checkGiveUp(before, r *round, e lease.Effect) {
	switch {
	case r.Stage != lease.Over || !r.GivenUp() || r.Verdict != lease.Undecided:
		w.wrong("a round goes on that was given up")
	case !e.Has(lease.Done):
		w.wrong("a round does not say that it was given up")
	case r.Kind == lease.Locking && !e.Has(lease.GiveBack|lease.Wake):
		w.wrong("what was given up is not given back, or nobody is told")
	case r.Kind != lease.Locking && e.Has(lease.GiveBack):
		w.wrong("a lock is given back, as its extension was given up")
	case before.Stage <= lease.Raising && !e.Has(lease.Decided):
		w.wrong("nobody is told that a question is not waited for")
	case e.Has(lease.Ask) || e.Has(lease.More) || e.Has(lease.Settled):
		w.wrong("giving up asks")
	}
}

// checkEnd looks at the end of an attempt that has not got the lock.
func (w *world) checkEnd(r *round) {
	if r.GivenUp() != r.gaveUp {
		w.wrong("it is not known whether a round was given up")
	}
	amounts := lease.NoQuorum
	if r.Contest != nil || hasNo(r.Ballots) {
		amounts = lease.Taken
	}
	switch {
	case !r.gaveUp:
	case r.Amounts() != amounts:
		w.wrong("what was given up amounts to something else")
	case amounts == lease.Taken && !hasNo(r.Telling()):
		w.wrong("what was given up is called taken, and none of its votes says so")
	}
}

// checkTake looks at the result as it is taken.
func (w *world) checkTake(c *client, cl *claim, before, r *round, e lease.Effect) {
	left := w.left(c, cl, r)
	switch {
	case before.Verdict == lease.Granted && left <= w.atLeast:
		if r.Verdict != lease.NoQuorum || !e.Has(lease.GiveBack) || e.Has(lease.Done) {
			w.wrong("a lock is taken of which too little is left")
		}
	case e != 0 || r.Verdict != before.Verdict:
		w.wrong("a result changes as it is taken")
	}
}

// checkHold looks at a lock that a client has just taken.
func (w *world) checkHold(c *client, cl *claim, left time.Duration) {
	if left != w.left(c, cl, cl.rounds[0]) {
		w.wrong("a lock is said to last for another time than it does")
	}
	if cl.released {
		w.wrong("a lock is got that was given back")
	}
}

func (w *world) checkRest(c *client, r *round) {
	if rest := r.Contest.Rest; rest < 0 || w.mono(c)+rest > c.began+w.longest()+c.extra {
		w.wrong("a client rests for too long")
	}
}

// checkExtended looks at what an extension has come to.
func (w *world) checkExtended(r *round) {
	if r.Verdict != lease.Granted {
		return
	}
	votes := 0
	for i := range r.Ballots {
		votes += int(r.said[i] & 1)
	}
	if votes < w.need(len(r.Ballots)) {
		w.wrong("a lock is extended without a quorum")
	}
}

// checkFence holds the fence of a lock, and the numbers that are its own besides, against those of all others.
func (w *world) checkFence(c *client, cl *claim) {
	if cl.fence <= cl.floor {
		w.wrong("a lock that was asked for after another was got has no larger fence")
	}
	if cl.first = w.numbers(c, cl); cl.first <= cl.floor {
		w.wrong("a number of a lock is not above a lock that was got before it was asked for")
	}
	for k := range w.limits.clients {
		for _, o := range w.clients[k].claims {
			same := int(cl.who) == k && cl.nr == o.nr
			if same || o.fence == 0 || w.wants[k]&w.wants[cl.who] == 0 {
				continue
			}
			if o.fence == cl.fence {
				w.wrong("two locks have the same fence")
			}
			if o.first <= cl.fence && cl.first <= o.fence {
				w.wrong("two locks have the same number")
			}
		}
	}
}

// numbers are those that a turn takes for the callers that have the lock one after the other: all up to its fence. It
// returns the first of them.
func (w *world) numbers(c *client, cl *claim) int64 {
	turn := cl.rounds[0].NewTurn(time.Second, w.at(c))
	first := turn.Fence()
	last := first
	for next := turn.Fence(); next != 0; next = turn.Fence() {
		if next != last+1 || next > cl.fence {
			w.wrong("a turn takes another number than the next one")
			break
		}
		last = next
	}
	switch {
	case last != cl.fence:
		w.wrong("a lock's numbers do not end with its fence")
	case !w.blocks && first != last:
		w.wrong("a lock has more numbers, and has not asked what counters were")
	}
	return first
}

// checkWire looks at whether what node i may keep of a claim is released behind it.
func (w *world) checkWire(cl *claim, i int) {
	if !cl.released || w.foreign {
		return
	}
	may := false
	for _, k := range w.nodes[i] {
		may = may || k.Token == int(cl.token)
	}
	for _, m := range cl.wire[i] {
		switch m.task {
		case lockTask, repairTask:
			may = true
		case releaseTask:
			may = may && m.mute
		}
	}
	if may {
		w.wrong("a key is left behind")
	}
}

// check looks at a world after each move.
func (w *world) check() {
	for k := range w.limits.clients {
		c := w.clients[k]
		if w.fresh[k] {
			w.checkClient(c)
		}
		if c.phase != holding || w.anyExpiry || w.remaining(c) <= 0 {
			continue
		}
		for j := range k {
			o := w.clients[j]
			if o.phase == holding && w.remaining(o) > 0 && w.wants[k]&w.wants[j] != 0 {
				w.wrong("two clients have the lock at the same time")
			}
		}
	}
}

func (w *world) checkClient(c *client) {
	for j, cl := range c.claims {
		if cl.ended {
			continue
		}
		if r := cl.rounds[0]; r != settled && r.Kind == lease.Locking && r.Stage == lease.Over && r.Verdict != lease.Granted && !cl.released {
			w.wrong("an attempt that has failed does not give back")
		}
		over := true
		for n, r := range cl.rounds {
			w.checkRound(c, cl, n, r)
			over = over && r.done && r.taken && r.settles>>(r.Question&63)&1 != 0 && !r.silencing
		}
		isOver := over
		for i := range w.limits.nodes {
			w.checkWire(cl, i)
			over = over && len(cl.wire[i])+len(cl.replies[i])+len(cl.copies[i]) == 0
		}
		if isOver && (c.phase == idle || j < len(c.claims)-1) && cl.rounds[0] != settled && !w.foreign {
			cl.rounds = []*round{settled}
		}
		if over && (c.phase == idle || j < len(c.claims)-1) {
			c.claims[j] = &claim{who: cl.who, nr: cl.nr, token: cl.token, fence: cl.fence, first: cl.first, ended: true}
		}
	}
}

// checkRound has nobody wait for ever.
func (w *world) checkRound(c *client, cl *claim, n int, r *round) {
	if !r.begun || r == settled {
		return
	}
	if r.Stage != lease.Over && !r.armed && !r.silencing {
		w.wrong("a round waits for ever")
	}
	if until := cl.since(r) + r.due; r.armed && r.Stage != lease.Over && until > c.began+w.longest()+c.extra && n == 0 {
		w.wrong("an attempt takes too long")
	}
	for i := range r.Ballots {
		if r.own[i] != node.Pending {
			continue
		}
		under := r.silencing && i >= int(r.from)
		for _, m := range cl.wire[i] {
			under = under || int(m.round) == n && !m.mute
		}
		for _, m := range cl.replies[i] {
			under = under || int(m.round) == n
		}
		if !under {
			w.wrong("a vote is out, and nothing is on its way")
		}
		if !r.armed && !r.silencing {
			w.wrong("a vote is out, and there is no timer")
		}
	}
}

// longest is how long an attempt may take: a node timeout for the votes, one for a split vote, and one for raises.
func (w *world) longest() time.Duration {
	if w.fenced {
		return 3 * w.patience
	}
	return 2 * w.patience
}

// checkAtEnd looks at a world in which nothing can happen any more.
func (w *world) checkAtEnd() {
	if w.untimed {
		return
	}
	wins := 0
	for k := range w.limits.clients {
		c := w.clients[k]
		if c.phase != idle && c.phase != holding {
			w.wrong("a client waits for ever")
		}
		if c.got {
			wins++
		}
		for _, cl := range c.claims {
			for _, r := range cl.rounds {
				if r.begun && r.settles>>(r.Question&63)&1 == 0 {
					w.wrong("a question is never settled")
				}
			}
		}
	}
	if w.wins != 0 && wins != w.wins {
		w.wrong(map[bool]string{true: "nobody has got the lock", false: "several have got the lock"}[wins < w.wins])
	}
	if w.comesTo != "" && w.clients[0].last != map[string]lease.Verdict{"granted": lease.Granted, "taken": lease.Taken, "no quorum": lease.NoQuorum}[w.comesTo] {
		w.wrong(fmt.Sprintf("the first client has come to %d", w.clients[0].last))
	}
}
