package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/admission"
	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/link"
	"github.com/seed6c881748/redlock/internal/node"
)

// A round is one operation on all nodes in parallel. Package lease has its rules; this file drives them. The caller goes
// on when the round is done; the round itself "settles" when the last node has answered or its timer has run out, and
// needs no goroutine for that: the nodes' readers and the timer drive it.
//
// A round is safe for concurrent use, except that one goroutine calls ask and wait.
type round struct {
	r     *core
	ctx   context.Context //nolint:containedctx // Only its values, for the hook.
	claim *claim
	lock  *Lock        // of an extension
	asker *acquisition // of an attempt to get a lock

	task    node.Task     // of the first requests
	decided chan struct{} // closed when the round is done and its place was given back

	// Taken after a Lock's, and not held together with a node's or another round's.
	mu       sync.Mutex
	rules    lease.Round
	requests []node.Request // the first request to each node; one without a task was not sent
	again    *again         // nil: nodes were asked once
	failure  *failure       // nil: it has not failed yet
	timer    *time.Timer
	due      time.Duration // when the timer fires, since the round's start
	attempt  int32         // constant
	admitted bool          // it has a place; see admission
	begins   bool          // the next requests are the first ones, those of ask
	alone    bool          // the caller writes and reads by itself, between ask and wait. Only the caller uses it
}

// An again is the further state of a round that has asked some nodes a second time.
type again struct {
	question uint32 // the latest
	task     *node.Task
	requests map[int]*node.Request // the latest, by node; an earlier one may still be in a queue
}

// smallNodes is the number of nodes up to which a round's requests and votes need no allocation of their own.
const smallNodes = 5

// A smallRound is a round with room for its requests, their encoding and votes: one allocation
// for the usual numbers of nodes. With the eight bytes that the allocator adds it just fits 1 152, and the next size is 1 280.
type smallRound struct {
	round

	requests [smallNodes]node.Request
	ballots  [smallNodes]lease.Ballot
	encoded  [184]byte // Enough for most commands.
}

// newRound prepares a round in which every node is asked cmd. The caller may preset votes before it calls ask.
func (co *core) newRound(ctx context.Context, c *claim, cmd node.Command, kind lease.Kind, attempt int) *round {
	n := len(co.nodes)
	small := new(smallRound)
	rd := &small.round
	rd.r, rd.ctx, rd.claim, rd.attempt = co, ctx, c, int32(attempt)
	rd.decided = make(chan struct{})
	rd.requests, rd.rules.Ballots = small.requests[:], small.ballots[:]
	if n > smallNodes {
		rd.requests, rd.rules.Ballots = make([]node.Request, n), make([]lease.Ballot, n)
	}
	rd.requests, rd.rules.Ballots = rd.requests[:n], rd.rules.Ballots[:n]
	rd.rules.Config, rd.rules.Kind = &co.rules, kind
	rd.task.Kind, rd.task.Command, rd.task.Trace, rd.task.Receiver = kinds[kind].request, cmd, &c.Trace, rd
	if cmd.Script != nil {
		link.Encode(&rd.task.Command, small.encoded[:0])
	}
	return rd
}

// kinds are the kinds of rounds as callers and nodes know them.
var kinds = [...]struct {
	op      Op
	request node.Kind // the first one
}{
	lease.Locking:   {OpLock, node.LockRequest},
	lease.Extending: {OpExtend, node.Ask},
	lease.Unlocking: {OpUnlock, node.Release},
	lease.Releasing: {OpRelease, node.Release},
}

func (rd *round) op() Op { return kinds[rd.rules.Kind].op }

// ask sends the requests. The round ends at the latest timeout from now.
func (rd *round) ask(timeout time.Duration) {
	now := time.Now()
	rd.r.wake(now)
	rd.mu.Lock()
	rd.task.Limit = timeout
	rd.begins = true
	rd.carryOut(rd.rules.Begin(now, timeout), now)
}

// Receive counts node i's answer.
func (rd *round) Receive(i int, out node.Outcome, at time.Time) {
	if out.Unqueued != "" {
		rd.r.subscriptions.Complain(i, link.NoQueue, fmt.Errorf("not put in line: %s", out.Unqueued))
	}
	if out.Wanted {
		rd.lock.want()
	}
	rd.mu.Lock()
	rd.voted(i, &out, rd.rules.Vote(i, &out, at), at)
}

// voted carries out the effect of a vote. The caller holds rd.mu, and voted unlocks it.
func (rd *round) voted(i int, out *node.Outcome, e lease.Effect, at time.Time) {
	if e == 0 {
		rd.mu.Unlock()
		return
	}
	if e.Has(lease.Counted) {
		rd.r.nodes[i].Votes.Add(out)
	}
	rd.carryOut(e, at)
	if e.Has(lease.Counted) {
		rd.r.nodes[i].Voted(out, at)
	}
}

// tick is called by the timer.
func (rd *round) tick() {
	defer rd.r.interrupt() // Last: a caller that begins to read after that sees the decision first, in exchange.
	now := time.Now()
	rd.mu.Lock()
	e := rd.rules.Tick(now)
	if e.Has(lease.StoodStill) {
		rd.r.stoodStill(now.Add(-rd.rules.Stood), now)
	}
	if !e.Has(lease.Overdue) {
		rd.due = never
		rd.carryOut(e, now)
		return
	}
	why, question := rd.rules.Silence(now), rd.rules.Question
	var space [smallNodes]*node.Request
	late := space[:0]
	for i := range rd.requests {
		late = append(late, rd.requestLocked(i))
	}
	rd.mu.Unlock()
	for i, req := range late {
		if req.Task != nil {
			rd.r.nodes[i].Withdraw(req) // Nothing else removes it if it still waits to be written.
			rd.mu.Lock()
			rd.voted(i, &node.Outcome{Err: why}, rd.rules.Miss(i, question, why, now), now)
		}
	}
	rd.mu.Lock()
	rd.due = never // What follows may be due at the very time for which the timer has come.
	rd.armLocked()
	rd.mu.Unlock()
}

// requestLocked returns the latest request to node i. rd.mu is held.
func (rd *round) requestLocked(i int) *node.Request {
	if rd.again != nil && rd.again.requests[i] != nil {
		return rd.again.requests[i]
	}
	return &rd.requests[i]
}

// never says that the timer is not set.
const never time.Duration = -1

// armLocked sets the timer. rd.mu is held.
func (rd *round) armLocked() {
	due, any := rd.rules.Due()
	switch {
	case !any:
		if rd.timer != nil {
			rd.timer.Stop()
		}
		rd.due = never
	case rd.timer == nil:
		rd.timer = time.AfterFunc(time.Until(rd.rules.Start.Add(due)), rd.tick)
		rd.due = due
	case rd.due != due:
		rd.timer.Reset(max(time.Until(rd.rules.Start.Add(due)), 1))
		rd.due = due
	}
}

// carryOut carries out what the rules want. The caller holds rd.mu, and carryOut unlocks it.
func (rd *round) carryOut(e lease.Effect, now time.Time) {
	e = rd.noteLocked(e, now)
	if e.Has(lease.GiveBack) {
		rd.failLocked().votes = rd.votesLocked(rd.rules.Telling()) // Before the release withdraws what was not sent.
		if e.Has(lease.Wake) {
			rd.claim.wakeOthers()
		}
	}
	var space [smallNodes]*node.Request
	asks := space[:0]
	if e.Has(lease.Ask) {
		asks = rd.asksLocked(asks)
	}
	first := rd.begins
	rd.begins = false
	repairs := e.Has(lease.Settled) && rd.rules.Kind == lease.Extending && rd.rules.Verdict == lease.Granted
	rd.armLocked()
	rd.mu.Unlock()

	for _, req := range asks {
		// The round may have ended meanwhile, and given back: a link drops what is asked for behind its release.
		if err := rd.enqueue(req, first, now); err != nil {
			rd.Receive(int(req.Index), node.Outcome{Err: err}, time.Now())
		}
	}
	if e.Has(lease.GiveBack) {
		// In the background. Each node's connection keeps the order, so the release comes after the lock request there,
		// however late that is answered.
		for i, n := range rd.r.nodes {
			n.Release(&rd.claim.Trace, i)
		}
	}
	if e.Has(lease.Done) {
		close(rd.decided)
	}
	if repairs {
		rd.lock.repair(rd)
	}
}

// enqueue hands a request to its node. first: it is one of ask's.
func (rd *round) enqueue(req *node.Request, first bool, now time.Time) (err error) {
	n := rd.r.nodes[req.Index]
	if first {
		rd.alone, err = n.EnqueueAlone(req, now)
		return err
	}
	return n.Enqueue(req, now)
}

// exchange makes a caller that is alone write and read, until the round is done or the node interrupted.
func (rd *round) exchange() {
	if !rd.alone {
		return
	}
	n := rd.r.nodes[0]
	select {
	case <-rd.decided:
		n.Interrupt() // The round's time was over before it could ask.
	default: // tick interrupts it.
	}
	n.Exchange()
	rd.alone = false
}

// exchangeFor is exchange for a caller that waits for as long as ctx and the Redlock do. The context is the user's code:
// however that ends, nobody else reads.
func (rd *round) exchangeFor(ctx context.Context, closing <-chan struct{}) {
	if !rd.alone {
		return
	}
	stop := func() bool { return false }
	defer func() {
		rd.exchange()
		stop()
	}()
	stop = rd.interruptedBy(ctx, closing)
}

// interruptedBy makes the end of ctx or of the Redlock end the exchange. Call stop after it.
func (rd *round) interruptedBy(ctx context.Context, closing <-chan struct{}) (stop func() bool) {
	n := rd.r.nodes[0]
	select {
	case <-closing:
		n.Interrupt()
	default: // Close interrupts it.
	}
	if ctx.Done() == nil {
		return func() bool { return false }
	}
	return context.AfterFunc(ctx, n.Interrupt)
}

// noteLocked sends the events of a decision, and goes on to the next question if there is one. It returns all effects
// that are still to be carried out. rd.mu is held.
func (rd *round) noteLocked(e lease.Effect, now time.Time) lease.Effect {
	for all := e; ; all |= e {
		rd.tellLocked(e)
		if rd.admitted {
			rd.givePlaceBackLocked(now)
		}
		if !e.Has(lease.More) {
			return all
		}
		e = rd.rules.Next(now)
	}
}

// asksLocked appends the requests to send. rd.mu is held.
func (rd *round) asksLocked(asks []*node.Request) []*node.Request {
	if q := rd.rules.Question; q > 0 {
		if rd.again == nil {
			rd.again = &again{requests: make(map[int]*node.Request)}
		}
		if rd.again.question != q {
			rd.again.question, rd.again.task = q, rd.nextTaskLocked()
		}
	}
	for i := range rd.requests {
		if !rd.rules.Asked(i) {
			continue
		}
		req, task := &rd.requests[i], &rd.task
		if rd.again != nil {
			req, task = new(node.Request), rd.again.task
			rd.again.requests[i] = req
		}
		*req = node.Request{Task: task, Index: uint16(i)}
		asks = append(asks, req)
	}
	return asks
}

// nextTaskLocked returns the task that nodes get next. rd.mu is held.
func (rd *round) nextTaskLocked() *node.Task {
	t := &node.Task{Trace: rd.task.Trace, Receiver: rd, Limit: rd.rules.Limit()}
	if rd.rules.IsRaising() {
		t.Kind, t.Command = node.Ask, raiseCommand(rd.claim, rd.rules.Fencing.Aim)
	} else {
		t.Kind, t.Command, t.Lives = node.LockRequest, rd.asker.request(rd.claim), rd.task.Lives
	}
	return t
}

// wait returns when the round is done, or with an error when ctx or the Redlock ended first. Votes still
// come in then, until the round settles.
func (rd *round) wait(ctx context.Context, closing <-chan struct{}) (ended error) {
	rd.exchangeFor(ctx, closing)
	select {
	case <-rd.decided:
		return nil
	default:
	}
	select {
	case <-rd.decided:
		return nil
	case <-ctx.Done():
		ended = ctx.Err()
	case <-closing:
		ended = ErrClosed
	}
	rd.mu.Lock()
	e := rd.rules.GiveUp()
	if e != 0 {
		f := rd.failLocked()
		f.ended, f.amounts = ended, rd.rules.Amounts()
	}
	rd.carryOut(e, time.Now())
	<-rd.decided
	return ended
}

func isStandstill(b lease.Ballot) bool { return errors.As(b.Err, new(node.StandstillError)) }

// givePlaceBackLocked gives the round's place back when its votes decide it, or when none is pending. The end of its
// caller's wait is no reason: nodes still carry out its requests, and calls that end early would overload them. rd.mu
// is held.
func (rd *round) givePlaceBackLocked(now time.Time) {
	v := rd.rules.Standing()
	if v == lease.Undecided {
		v = rd.rules.Latest // Of nodes that are not slow.
	}
	if v == lease.Undecided && rd.rules.IsPending() {
		return
	}
	ballots := rd.rules.Ballots
	s := admission.Sample{Took: now.Sub(rd.rules.Start), Timeout: rd.rules.Patience, Answered: v == lease.Granted || v == lease.Taken}
	s.Late = v == lease.NoQuorum && s.Took >= rd.task.Limit && !slices.ContainsFunc(ballots, isStandstill)
	hasQueue := func(b lease.Ballot) bool { return errors.Is(b.Err, node.ErrBehind) }
	if v == lease.NoQuorum && !s.Late && slices.ContainsFunc(ballots, hasQueue) {
		// Earlier rounds are late there, by what isSilent takes for patience, though this one was not asked.
		s.Took, s.Late = max(s.Timeout, rd.r.defaults.nodeTimeout), true
	}
	rd.r.admission.Leave(s, now)
	rd.admitted = false
}
